package denialog

import (
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/rules"
)

// maxPerMinute bounds the lines of all rules in a minute, and Options.PerMinute.
const maxPerMinute = 1000

// Options configures a Log.
type Options struct {
	// Logger gets the lines, at level info; required.
	Logger *slog.Logger
	// PerMinute is the number of denials of one rule that are logged in a minute, at
	// most maxPerMinute; 0 logs none.
	PerMinute int
	// Hasher names keys; nil is keyname.Random.
	Hasher *keyname.Hasher
	// ConfigVersion returns the version of the rules in force; nil leaves it out.
	ConfigVersion func() string
}

// Log is a headgate.Observer that writes lines. It is safe for concurrent use. Make one
// with New, and tell it the rules by SetRules: before, all share one budget.
type Log struct {
	perMinute     uint32
	hasher        *keyname.Hasher
	configVersion func() string
	writer        writer

	rules atomic.Pointer[table]
	swap  sync.Mutex // held while a table is made

	// minute numbers the minute under way, and ends says that a timer will end it.
	minute atomic.Uint32
	ends   atomic.Bool
	// left is how many lines all rules together have in the minute.
	left atomic.Int64
}

var _ headgate.Observer = (*Log)(nil)

// New returns a Log.
func New(o Options) *Log {
	if o.Hasher == nil {
		o.Hasher = keyname.Random()
	}
	l := &Log{
		perMinute:     uint32(min(max(o.PerMinute, 0), maxPerMinute)),
		hasher:        o.Hasher,
		configVersion: o.ConfigVersion,
		writer:        writer{handler: o.Logger.Handler()},
	}
	l.left.Store(maxPerMinute)
	l.rules.Store(&table{caller: new(budget), other: new(budget)})
	return l
}

// table finds the budget of a rule. It is immutable.
type table struct {
	byID map[string]*budget
	// caller is of all limits that callers name, other of rules that are not in force.
	caller, other *budget
}

func (t *table) of(rule *rules.Rule) *budget {
	if rule == nil {
		return t.caller
	}
	if b := t.byID[rule.ID]; b != nil {
		return b
	}
	return t.other
}

// SetRules says which rules, nil for none, are in force: each has a budget of its own. One
// that keeps its ID keeps what is left of it.
func (l *Log) SetRules(set *rules.Set) {
	l.swap.Lock()
	defer l.swap.Unlock()
	old := l.rules.Load()
	next := &table{byID: map[string]*budget{}, caller: old.caller, other: old.other}
	if set != nil {
		for _, rule := range set.Rules() {
			if b := old.byID[rule.ID]; b != nil {
				next.byID[rule.ID] = b
			} else {
				next.byID[rule.ID] = new(budget)
			}
		}
	}
	l.rules.Store(next)
}

// Decided implements headgate.Observer.
func (l *Log) Decided(req *headgate.Request, resp *headgate.Response, _ time.Duration) {
	for i := range resp.Verdicts {
		if !resp.Verdicts[i].Decision.Allowed {
			l.denied(req, resp, i)
		}
	}
}

// denied logs a verdict that denies, if it is the first one of its rule to do so, and if
// there is a line left for it.
func (l *Log) denied(req *headgate.Request, resp *headgate.Response, i int) {
	v := &resp.Verdicts[i]
	if l.perMinute == 0 || req == nil || !told(resp, v) || i > 0 && sameDenial(resp, &resp.Verdicts[i-1], v) {
		return
	}
	b := l.rules.Load().of(v.Rule)
	if !b.take(l.minute.Load(), l.perMinute) || l.left.Add(-1) < 0 {
		b.suppressed.Add(1)
		return
	}
	l.endMinute()
	suppressed := b.suppressed.Swap(0)
	if !l.writer.write(l.line(req, resp, v, suppressed)) {
		b.suppressed.Add(suppressed + 1)
	}
}

// told reports whether lines tell of a verdict that denies: it denied its request, or
// would have were it not in shadow mode.
func told(resp *headgate.Response, v *headgate.Verdict) bool {
	return v.TookPart() && (!v.Enforced() || !resp.Allowed)
}

// sameDenial reports whether the verdict before has told of the same rule and descriptor.
func sameDenial(resp *headgate.Response, before, v *headgate.Verdict) bool {
	return before.Rule == v.Rule && before.Descriptor == v.Descriptor && !before.Decision.Allowed && told(resp, before)
}

// endMinute sees to it that the minute under way ends. The timer says that it is over
// before the next one begins: whoever takes the first line of that starts another timer,
// without which it would never end.
func (l *Log) endMinute() {
	if l.ends.CompareAndSwap(false, true) {
		time.AfterFunc(time.Minute, func() {
			l.ends.Store(false)
			l.minute.Add(1)
			l.left.Store(maxPerMinute)
		})
	}
}

// budget is the lines of one rule.
type budget struct {
	// taken is the number of a minute in the upper half, and of the lines taken in it in
	// the lower one.
	taken atomic.Uint64
	// suppressed counts the denials since the last line.
	suppressed atomic.Uint64
}

// take takes one of the lines of a minute, and reports whether there was one.
func (b *budget) take(minute, perMinute uint32) bool {
	for {
		taken := b.taken.Load()
		lines := taken & math.MaxUint32
		if uint32(taken>>32) != minute {
			lines = 0
		}
		if lines >= uint64(perMinute) {
			return false
		}
		if b.taken.CompareAndSwap(taken, uint64(minute)<<32|(lines+1)) {
			return true
		}
	}
}
