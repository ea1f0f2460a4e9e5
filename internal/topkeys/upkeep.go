package topkeys

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"
)

const (
	// forgotten is the count below which a key is dropped: a single decision lasts for
	// 3.3 half-lives.
	forgotten = 0.1
	// tickEvery is how often gates adapt, fadeEvery how often counts fade and rules give
	// way.
	tickEvery = time.Second
	fadeEvery = 10 * time.Second
	// busier is by how much a rule without summaries must have more to count than one
	// with them, to take its place; changesPerFade bounds how many do at one time.
	busier         = 2
	changesPerFade = 16
)

// open gives a rule, whose lock is held, summaries, and reports whether there was room.
func (t *Tracker) open(keys *ruleKeys) bool {
	if keys.mu.gone {
		return false
	}
	if t.counted.Add(1) > t.maxRules {
		t.counted.Add(-1)
		return false
	}
	keys.mu.keys = newCounted(t.perRule)
	return true
}

// close takes the summaries of a rule, whose lock is held, if it has any.
func (t *Tracker) close(keys *ruleKeys) {
	if keys.mu.keys != nil {
		keys.mu.keys = nil
		t.counted.Add(-1)
	}
}

// Run adapts what is looked at to the load, and lets counts fade, until ctx ends.
func (t *Tracker) Run(ctx context.Context) {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	last := time.Now()
	t.begin(last)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			now := time.Now()
			t.tick(now, now.Sub(last))
			last = now
		}
	}
}

// begin says when time begins.
func (t *Tracker) begin(now time.Time) { t.faded, t.turned = now, now }

// tick is called every tickEvery, since after the last time.
func (t *Tracker) tick(now time.Time, since time.Duration) {
	if since <= 0 {
		return
	}
	t.total.tick(since)
	t.denied.tick(since)
	if passed := now.Sub(t.turned); passed >= time.Minute {
		t.eachCounted(func(keys *ruleKeys) { keys.mu.keys.nextMinute() })
		t.turned = now
	}
	if passed := now.Sub(t.faded); passed >= fadeEvery {
		t.fade(math.Exp2(-passed.Seconds() / halfLife.Seconds()))
		t.giveWay()
		t.faded = now
	}
}

// eachCounted calls f for each rule with summaries, with its lock held.
func (t *Tracker) eachCounted(f func(*ruleKeys)) {
	for _, keys := range t.rules.Load().byID {
		keys.mu.Lock()
		if keys.mu.keys != nil {
			f(keys)
		}
		keys.mu.Unlock()
	}
}

// fade lets all counts fade.
func (t *Tracker) fade(factor float64) {
	for _, keys := range t.rules.Load().byID {
		keys.mu.Lock()
		keys.mu.load *= factor
		if c := keys.mu.keys; c != nil {
			c.total.Fade(factor, forgotten)
			c.denied.Fade(factor, forgotten)
			if c.empty() {
				t.close(keys)
			}
		}
		keys.mu.Unlock()
	}
}

// giveWay takes the summaries of rules that have least to count, where others without have
// more. Those get theirs with the next sample.
func (t *Tracker) giveWay() {
	if t.counted.Load() < t.maxRules {
		return
	}
	with, without := t.loads()
	for i := 0; i < min(len(with), len(without), changesPerFade); i++ {
		if without[i].load <= busier*with[i].load {
			return
		}
		t.replace(with[i].keys, without[i].keys)
	}
}

// replace gives what one rule has to another.
func (t *Tracker) replace(quiet, busy *ruleKeys) {
	quiet.mu.Lock()
	t.close(quiet)
	quiet.mu.Unlock()
	busy.mu.Lock()
	defer busy.mu.Unlock()
	if busy.mu.keys == nil {
		t.open(busy)
	}
}

// ruleLoad is what a rule has had to count.
type ruleLoad struct {
	keys *ruleKeys
	load float64
}

// loads returns the rules with summaries, those with the least to count first, and the
// others, those with the most first.
func (t *Tracker) loads() (with, without []ruleLoad) {
	for _, keys := range t.rules.Load().byID {
		keys.mu.Lock()
		l := ruleLoad{keys, keys.mu.load}
		if keys.mu.keys != nil {
			with = append(with, l)
		} else if l.load > 0 {
			without = append(without, l)
		}
		keys.mu.Unlock()
	}
	slices.SortFunc(with, func(a, b ruleLoad) int { return cmp.Compare(a.load, b.load) })
	slices.SortFunc(without, func(a, b ruleLoad) int { return cmp.Compare(b.load, a.load) })
	return with, without
}
