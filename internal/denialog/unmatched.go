package denialog

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// Values of the field kind, as metrics have them.
const (
	unmatched     = "unmatched"
	unknownDomain = "unknown_domain"
)

const (
	// maxKinds bounds the kinds of unlimited requests that are told apart, because callers
	// name domains. All others share one line a minute.
	maxKinds = 64
	// unmatchedEvery is how often a kind gets a line.
	unmatchedEvery = time.Minute
	// maxShapes bounds the shapes of descriptors, and the domains, that a line names, and
	// maxKeys the entries of each descriptor and the descriptors.
	maxShapes, maxKeys = 8, 8
)

// otherKinds stands for the domain of kinds beyond maxKinds.
const otherKinds = "(others)"

// Unmatched is a headgate.Observer that writes a line of requests that no rule limits,
// once a minute for each front, domain and kind: they pass, and nobody would hear of a
// domain that is misspelt. The zero value is not ready: make one with NewUnmatched. It is
// safe for concurrent use.
//
// A line names the domain and the keys of the entries, and what rules would want. Values
// are not told: they may be secrets. Requests whose rules are switched off are no matter
// for a line, nor are renewals and releases.
type Unmatched struct {
	writer writer
	rules  atomic.Pointer[ruleShapes]

	mu struct {
		sync.Mutex
		kinds map[kind]*untold
		// swept is when kinds that have been quiet were dropped last.
		swept time.Time
	}
}

var _ headgate.Observer = (*Unmatched)(nil)

// kind is what gets a line a minute.
type kind struct{ front, domain, what string }

// untold is what became of a kind since its last line.
type untold struct {
	told     time.Time
	requests uint64
}

// ruleShapes are the rules in force, and what they want, in words.
type ruleShapes struct {
	set     *rules.Set // may be nil
	domains string
	shapes  map[string]string
}

// NewUnmatched returns an Unmatched that writes to logger. It knows no domain until
// SetRules is called.
func NewUnmatched(logger *slog.Logger) *Unmatched {
	u := &Unmatched{writer: writer{handler: logger.Handler()}}
	u.mu.kinds = map[kind]*untold{}
	u.SetRules(nil)
	return u
}

// SetRules says which rules, nil for none, are about to be in force.
func (u *Unmatched) SetRules(set *rules.Set) {
	next := &ruleShapes{set: set, shapes: map[string]string{}}
	if set != nil {
		names := set.Domains()
		next.domains = some(names)
		for _, name := range names {
			next.shapes[name] = strings.Join(set.Domain(name).Shapes(maxShapes), " | ")
		}
	}
	u.rules.Store(next)
}

// some joins the first of names.
func some(names []string) string {
	more := ""
	if len(names) > maxShapes {
		names, more = names[:maxShapes], ", …"
	}
	return strings.Join(names, ", ") + more
}

// Decided implements headgate.Observer.
func (u *Unmatched) Decided(req *headgate.Request, resp *headgate.Response, _ time.Duration) {
	if len(resp.Verdicts) > 0 || req == nil || len(req.Descriptors) == 0 {
		return
	}
	if op := req.Descriptors[0].Op; op == store.Renew || op == store.Release {
		return
	}
	what := unmatched
	if !resp.DomainKnown {
		what = unknownDomain
	}
	u.note(req, what, time.Now())
}

// note counts a request, and writes a line if one is due at now. Rules are asked outside
// of the lock: where one is switched off, that is so for each of its requests.
func (u *Unmatched) note(req *headgate.Request, what string, now time.Time) {
	u.mu.Lock()
	of := u.kindOf(req, what, now)
	of.requests++
	due := of.due(now)
	u.mu.Unlock()
	if !due {
		return
	}
	shapes := u.rules.Load()
	switchedOff := what == unmatched && reaches(shapes.set, req)
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case switchedOff:
		of.requests -= min(of.requests, 1)
	case of.due(now) && u.writer.write(unmatchedLine(req, what, shapes, of.requests)):
		of.told, of.requests = now, 0
	}
}

// due reports whether a line may be written at now.
func (of *untold) due(now time.Time) bool {
	return of.told.IsZero() || now.Sub(of.told) >= unmatchedEvery
}

// kindOf returns what is known of the kind of req; that of all others where there are too
// many.
func (u *Unmatched) kindOf(req *headgate.Request, what string, now time.Time) *untold {
	k := kind{req.Origin.Front, req.Domain[:min(len(req.Domain), maxField)], what}
	if of := u.mu.kinds[k]; of != nil {
		return of
	}
	if len(u.mu.kinds) >= maxKinds && now.Sub(u.mu.swept) >= unmatchedEvery {
		u.mu.swept = now
		for k, of := range u.mu.kinds {
			if now.Sub(of.told) >= unmatchedEvery {
				delete(u.mu.kinds, k)
			}
		}
	}
	if len(u.mu.kinds) >= maxKinds {
		k = kind{domain: otherKinds, what: what}
		if of := u.mu.kinds[k]; of != nil {
			return of
		}
	}
	k.domain = strings.Clone(k.domain)
	of := new(untold)
	u.mu.kinds[k] = of
	return of
}

// reaches reports whether a rule applies to req all the same.
func reaches(set *rules.Set, req *headgate.Request) bool {
	if set == nil {
		return false
	}
	domain := set.Domain(req.Domain)
	if domain == nil {
		return false
	}
	if len(domain.Always) > 0 {
		return true
	}
	var room [8]rules.Matched
	for i := range req.Descriptors {
		if len(domain.AppendMatches(room[:0], req.Descriptors[i].Entries, time.Now)) > 0 {
			return true
		}
	}
	return false
}

// unmatchedLine puts a line together. It keeps nothing of the request.
func unmatchedLine(req *headgate.Request, what string, shapes *ruleShapes, requests uint64) slog.Record {
	level, text := slog.LevelInfo, "requests pass that no rule limits; hint: compare their keys with those that rules want, in order"
	wanted := slog.String("rules_want", clean(shapes.shapes[req.Domain]))
	if what == unknownDomain {
		level, text = slog.LevelWarn, "requests pass because no rule has their domain; hint: is it misspelt, or has it been removed from the rules?"
		wanted = slog.String("domains", clean(shapes.domains))
	}
	r := slog.NewRecord(time.Now(), level, text, 0)
	r.AddAttrs(
		slog.String("kind", what),
		slog.String("front", clean(req.Origin.Front)),
		slog.String("domain", clean(req.Domain)),
		slog.String("keys", clean(keysOf(req))),
		wanted,
		slog.Uint64("requests", requests),
	)
	return r
}

// keysOf returns the keys of the entries of req, descriptor by descriptor.
func keysOf(req *headgate.Request) string {
	var b strings.Builder
	for i := range req.Descriptors {
		if i > 0 {
			b.WriteString(" | ")
		}
		if i == maxKeys {
			b.WriteString("…")
			break
		}
		entries := req.Descriptors[i].Entries
		for j := range entries {
			if j > 0 {
				b.WriteString(", ")
			}
			if j == maxKeys {
				b.WriteString("…")
				break
			}
			b.WriteString(entries[j].Key[:min(len(entries[j].Key), maxField)])
		}
	}
	return b.String()
}
