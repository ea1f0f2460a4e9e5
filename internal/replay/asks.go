package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/verdict"
)

// Ask is what a recorded request asks of a main limit of a rule.
type Ask struct {
	Rule *rules.Rule
	// Limit is which of its main limits it is, in their order.
	Limit int
	// Key are 64 bits of a hash of what the rule counts by. Nobody who sends requests can
	// choose them, because the version of the rules is in it; with the same rules they are
	// the same again.
	Key  uint64
	At   limit.Micros
	Hits int64
	Op   store.Op

	key []byte // what is hashed
}

// Asked is what Asks has gone over.
type Asked struct {
	// Requests are those that ask for hits, Matched those of them that a rule is for.
	Requests int64 `json:"requests"`
	Matched  int64 `json:"matched"`
	// From and Until are the times of the first request and the last.
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Reading is what became of lines, Lacks how many records lack something, and Notes say what
	// cannot be told.
	Reading Reading          `json:"reading"`
	Lacks   map[string]int64 `json:"lacks,omitempty"`
	Notes   []string         `json:"notes,omitempty"`
}

// Asks tells each what records ask of the main limits of rules, in the order of their times, until
// ctx ends. Nothing is denied: a record asks of all limits that are for it. Of o it takes Inputs,
// Candidate, which are the rules, Tenants, Values, Window, Since, Until and Partial. What tenants
// have of their own in the place of a rule's limits is left out. An Ask is good until the next.
func Asks(ctx context.Context, o Options, each func(*Ask)) (*Asked, error) {
	q := &run{o: &o, opaque: opaqueRules(o.Values != nil, o.Candidate)}
	limiter, err := newLimiter(allowing{}, o.Candidate, &o, &q.now)
	if err != nil {
		return nil, err
	}
	q.candidate = &asker{limiter: limiter}
	g := &gathering{version: []byte(o.Candidate.Version()), each: each}
	m, err := q.each(ctx, func(ctx context.Context, r *Record) error { return g.gather(ctx, q, r) })
	if err != nil {
		return nil, err
	}
	return g.report(q, m)
}

// gathering is Asks under way.
type gathering struct {
	version     []byte
	each        func(*Ask)
	asked       Asked
	first, last limit.Micros
	// asks are those of one request. Their memory is used again.
	asks []Ask
	room [8]descriptor.Entry
	text []byte
}

// gather tells what one record asks.
func (g *gathering) gather(ctx context.Context, q *run, r *Record) error {
	if lacks := q.told(r.Lacks); lacks != 0 && !q.o.Partial {
		return &LackError{lacks, q.opaque}
	}
	q.now = r.At
	response, err := q.candidate.ask(ctx, r)
	if err != nil {
		return fmt.Errorf("ask the rules: %w", err)
	}
	if hits(r) {
		if g.asked.Requests == 0 {
			g.first = r.At
		}
		g.last = r.At
		g.asked.Requests++
		if len(response.Verdicts) > 0 {
			g.asked.Matched++
		}
	}
	g.asks = g.asks[:0]
	number := 0 // of a main limit among those of its rule
	for i := range response.Verdicts {
		v := &response.Verdicts[i]
		if i > 0 {
			if before := &response.Verdicts[i-1]; before.Rule == v.Rule && before.Descriptor == v.Descriptor && before.Role == v.Role {
				number++
			} else {
				number = 0
			}
		}
		if v.Role == rules.Main && v.Rule != nil && v.Limit != nil && v.Source == tenant.FromRule && v.By != verdict.ByReplacement {
			g.add(&q.candidate.requests[0], v, number)
		}
	}
	for i := range g.asks {
		a := &g.asks[i]
		a.At = r.At
		g.text = append(append(g.text[:0], g.version...), a.key...)
		sum := sha256.Sum256(g.text)
		a.Key = binary.BigEndian.Uint64(sum[:8])
		g.each(a)
	}
	return nil
}

// add adds what a verdict is about. Descriptors of one request that share the head of a path
// share its limit, and are charged there once.
func (g *gathering) add(req *headgate.Request, v *headgate.Verdict, number int) {
	a := Ask{Rule: v.Rule, Limit: number, Hits: v.Hits, Op: req.Descriptors[v.Descriptor].Op}
	if len(g.asks) < cap(g.asks) {
		a.key = g.asks[:len(g.asks)+1][len(g.asks)].key[:0]
	}
	a.key = descriptor.AppendKey(a.key, descriptor.KindRule, v.Rule.Domain, v.Entries(g.room[:0], req), 0)
	if v.Rule.Match() == rules.Path {
		same := slices.IndexFunc(g.asks, func(b Ask) bool {
			return b.Rule == a.Rule && b.Limit == a.Limit && b.Op == a.Op && bytes.Equal(b.key, a.key)
		})
		if same >= 0 {
			g.asks[same].Hits = max(g.asks[same].Hits, a.Hits)
			return
		}
	}
	g.asks = append(g.asks, a)
}

// report returns what was gone over.
func (g *gathering) report(q *run, m *merge) (*Asked, error) {
	if q.unfound(m) {
		return nil, ErrHashKey
	}
	a := &g.asked
	a.From, a.Until = g.first.Time().UTC(), g.last.Time().UTC()
	a.Reading, a.Lacks = m.reading, lacksOf(m)
	a.Notes = append(q.unknown(), q.lacking(a.Lacks)...)
	return a, nil
}

// allowing is a store that lets everything pass and remembers nothing.
type allowing struct{}

// Take implements store.Store.
func (allowing) Take(_ context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		c := takes[i].Limit.Capacity()
		results[i] = store.Result{Decision: limit.Decision{Allowed: true, Limit: c, Remaining: c}}
	}
}

// Close implements store.Store.
func (allowing) Close() error { return nil }
