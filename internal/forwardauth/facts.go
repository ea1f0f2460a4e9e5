package forwardauth

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
)

// facts knows from which facts about a request the rules in force take its cost. The
// length of its body is not among them: gateways do not tell it.
type facts struct{ last atomic.Pointer[factsOf] }

type factsOf struct {
	set  *rules.Set
	list []fact
}

// fact is one header field or one claim of the verified token.
type fact struct {
	attribute     string // as rules name it
	header, claim string // one of them
}

// of returns the facts that the rules of set ask for, each once.
func (f *facts) of(set *rules.Set) []fact {
	if set == nil {
		return nil
	}
	if last := f.last.Load(); last != nil && last.set == set {
		return last.list
	}
	of := &factsOf{set: set}
	for _, rule := range set.Rules() {
		if rule.Cost.Source != rules.CostAttribute {
			continue
		}
		asked := fact{attribute: rule.Cost.Name}
		if name, ok := strings.CutPrefix(rule.Cost.Name, "header:"); ok {
			asked.header = http.CanonicalHeaderKey(name)
		} else if asked.claim, ok = strings.CutPrefix(rule.Cost.Name, "claim:"); !ok {
			continue
		}
		if !slices.Contains(of.list, asked) {
			of.list = append(of.list, asked)
		}
	}
	f.last.Store(of)
	return of.list
}

// appendFacts appends the attributes of a request that hold list. A header field that is
// there twice is malformed: which one counts would be the client's choice.
func appendFacts(dst []descriptor.Entry, list []fact, r *http.Request, token *identity.Token) ([]descriptor.Entry, error) {
	for _, f := range list {
		if f.claim != "" {
			if token != nil {
				if value, ok := token.Claim(f.claim); ok {
					dst = append(dst, descriptor.Entry{Key: f.attribute, Value: value})
				}
			}
			continue
		}
		switch values := r.Header[f.header]; len(values) {
		case 0:
		case 1:
			dst = append(dst, descriptor.Entry{Key: f.attribute, Value: values[0]})
		default:
			return dst, malformed("%d header fields %s, from which a rule takes the cost of a request; hint: one of them", len(values), f.header)
		}
	}
	return dst, nil
}
