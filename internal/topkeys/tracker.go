package topkeys

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// halfLife is the time in which counts lose half.
const halfLife = 5 * time.Minute

// defaultPerRule and maxPerRule are the default and the bound of Options.PerRule.
const (
	defaultPerRule = 64
	maxPerRule     = 1024
)

const (
	// maxSlots bounds the keys of all summaries: 131,072 of them with texts of 20 bytes
	// take 22 MB, and 90 MB were all texts of keyname.MaxText bytes.
	maxSlots = 1 << 17
	// maxRules bounds the rules that have summaries, which also have sketches of 8 KiB.
	maxRules = 1024
)

// Options configures a Tracker.
type Options struct {
	// PerRule is the number of keys of a rule that are told apart, in each order; 0 is
	// defaultPerRule, the most is maxPerRule.
	PerRule int
	// Hasher names keys; nil is keyname.Random.
	Hasher *keyname.Hasher
}

// Tracker is a headgate.Observer that counts keys. It is safe for concurrent use. Make
// one with New, tell it the rules by SetRules, and have Run run.
type Tracker struct {
	// total and denied choose the decisions, and the denials, that are looked at.
	total, denied gate

	perRule  int
	maxRules int64
	hasher   *keyname.Hasher
	seed     maphash.Seed

	rules atomic.Pointer[table]
	swap  sync.Mutex // held while a table is made

	// counted is the number of rules that have summaries.
	counted atomic.Int64
	evicted atomic.Uint64

	// What Run alone uses.
	faded, turned time.Time
}

var _ headgate.Observer = (*Tracker)(nil)

// callerRule stands for all limits that callers name, as in metrics.
const callerRule = "(caller)"

// table finds what is counted of a rule. It is immutable.
type table struct {
	byID   map[string]*ruleKeys
	caller *ruleKeys
}

// of returns what is counted of the rule of a verdict, nil for a rule that is not in
// force.
func (t *table) of(rule *rules.Rule) *ruleKeys {
	if rule == nil {
		return t.caller
	}
	return t.byID[rule.ID]
}

// New returns a Tracker that has seen nothing, and knows of no rule yet.
func New(o Options) *Tracker {
	if o.PerRule <= 0 {
		o.PerRule = defaultPerRule
	}
	if o.Hasher == nil {
		o.Hasher = keyname.Random()
	}
	perRule := min(o.PerRule, maxPerRule)
	t := &Tracker{
		perRule:  perRule,
		maxRules: int64(min(maxRules, maxSlots/(2*perRule))),
		hasher:   o.Hasher,
		seed:     maphash.MakeSeed(),
	}
	t.total.init(budget)
	t.denied.init(budget)
	caller := &ruleKeys{id: callerRule}
	t.rules.Store(&table{caller: caller, byID: map[string]*ruleKeys{callerRule: caller}})
	return t
}

// SetRules makes the rules of a set, nil for none, those that are counted. A rule that
// keeps its ID keeps its counts.
func (t *Tracker) SetRules(set *rules.Set) {
	t.swap.Lock()
	defer t.swap.Unlock()
	old := t.rules.Load()
	next := &table{caller: old.caller, byID: map[string]*ruleKeys{callerRule: old.caller}}
	if set != nil {
		for _, rule := range set.Rules() {
			if keys := old.byID[rule.ID]; keys != nil {
				next.byID[rule.ID] = keys
			} else {
				next.byID[rule.ID] = &ruleKeys{id: rule.ID}
			}
		}
	}
	t.rules.Store(next)
	for id, keys := range old.byID {
		if next.byID[id] == nil {
			t.drop(keys)
		}
	}
}

// drop forgets a rule that is no longer in force.
func (t *Tracker) drop(keys *ruleKeys) {
	keys.mu.Lock()
	defer keys.mu.Unlock()
	keys.mu.gone = true
	t.close(keys)
}

// Decided implements headgate.Observer. Of most requests of a busy node it only throws
// the dice.
func (t *Tracker) Decided(req *headgate.Request, resp *headgate.Response, _ time.Duration) {
	if len(resp.Verdicts) == 0 {
		return
	}
	total, denied := t.total.pass(), uint64(0)
	if !resp.Allowed {
		denied = t.denied.pass()
	}
	if total|denied != 0 {
		counted, over := t.look(req, resp, float64(total), float64(denied))
		if total != 0 {
			t.total.has(counted)
		}
		if denied != 0 {
			t.denied.has(over)
		}
	}
}

// look counts a request that stands for so many, and for so many denied ones. It returns how
// many keys it has counted, and how many of them as denied.
func (t *Tracker) look(req *headgate.Request, resp *headgate.Response, total, denied float64) (counted, overs int) {
	if req == nil {
		return 0, 0 // of a decision that panicked
	}
	inForce := t.rules.Load()
	for rest := resp.Verdicts; len(rest) > 0; {
		n := sameRule(rest)
		verdict, over := summed(rest[:n])
		rest = rest[n:]
		if verdict == nil || !asks(req, verdict) {
			continue
		}
		if keys := inForce.of(verdict.Rule); keys != nil {
			denials := denied
			counted++
			if over {
				overs++
			} else {
				denials = 0
			}
			t.count(keys, req, verdict, total, denials)
		}
	}
	return counted, overs
}

// sameRule returns how many of the verdicts, from the first on, are of one rule and one
// descriptor.
func sameRule(verdicts []headgate.Verdict) int {
	n, first := 1, &verdicts[0]
	for n < len(verdicts) && verdicts[n].Rule == first.Rule && verdicts[n].Descriptor == first.Descriptor {
		n++
	}
	return n
}

// summed returns the verdict whose key stands for all verdicts of a rule, the main one
// where there is one and nil where none counts, and whether one denied.
func summed(verdicts []headgate.Verdict) (first *headgate.Verdict, over bool) {
	for i := range verdicts {
		v := &verdicts[i]
		if !v.TookPart() {
			continue
		}
		if first == nil {
			first = v
		}
		over = over || v.OverLimit() && !v.Guessed()
	}
	return first, over
}

// asks reports whether a verdict is of a request that asked for hits.
func asks(req *headgate.Request, v *headgate.Verdict) bool {
	return v.Hits > 0 && v.Descriptor < len(req.Descriptors) && req.Descriptors[v.Descriptor].Op == store.Hit
}

// entriesOnStack is how many entries of a key are put together without allocating.
const entriesOnStack = 8

// count counts the key of a verdict, as so many decisions and denials.
func (t *Tracker) count(keys *ruleKeys, req *headgate.Request, v *headgate.Verdict, total, denied float64) {
	if total == 0 && denied == 0 {
		return
	}
	var buffer [entriesOnStack]descriptor.Entry
	s := sample{domain: req.Domain, entries: v.Entries(buffer[:0], req), total: total, denied: denied}
	s.hash = t.hash(s.domain, s.entries)
	keys.mu.Lock()
	defer keys.mu.Unlock()
	keys.mu.load += total
	if keys.mu.keys == nil && !t.open(keys) {
		return
	}
	if evicted := keys.mu.keys.add(&s); evicted > 0 {
		t.evicted.Add(evicted)
	}
}

// usualKey is room for what is hashed of most keys, in bytes on the stack; more is allocated.
const usualKey = 256

// hash tells keys apart; two keys have the same one by chance alone. Lengths go in too, so
// that none reads like another.
func (t *Tracker) hash(domain string, entries []descriptor.Entry) uint64 {
	var space [usualKey]byte
	text := appendText(space[:0], domain)
	for i := range entries {
		text = appendText(appendText(text, entries[i].Key), entries[i].Value)
	}
	return maphash.Bytes(t.seed, text)
}

func appendText(dst []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(s))), s...)
}

// NewKeys returns the estimated number of different keys that a rule has seen in a minute,
// the one under way or the one before, whichever has more; rules without summaries are not
// in it. See the package's documentation for what sampling does to it.
func (t *Tracker) NewKeys() map[string]float64 {
	estimates := map[string]float64{}
	t.eachCounted(func(keys *ruleKeys) { estimates[keys.id] = keys.mu.keys.differentKeys() })
	return estimates
}

// Stats is the state of a Tracker.
type Stats struct {
	// Tracked is the number of keys in all summaries, Capacity the most there may be.
	Tracked, Capacity int64
	// Seen counts the decisions that were looked at, those denied twice where they were
	// in both samples. Evicted counts the keys that made room for others.
	Seen, Evicted uint64
}

// Stats returns the state.
func (t *Tracker) Stats() Stats {
	s := Stats{
		Capacity: t.maxRules * 2 * int64(t.perRule),
		Seen:     t.total.passed.Load() + t.denied.passed.Load(),
		Evicted:  t.evicted.Load(),
	}
	t.eachCounted(func(keys *ruleKeys) { s.Tracked += keys.mu.keys.tracked() })
	return s
}
