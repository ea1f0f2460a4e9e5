package regional_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/regional"
)

// of makes t one of a rule.
func of(rule string, t store.Take) store.Take {
	t.Mode = &store.Mode{Rule: rule, Regions: store.RegionsLeased}
	return t
}

// Each rule is counted by itself, and all of them together are what the store has counted.
func TestRulesAreCountedApart(t *testing.T) {
	inPlace(t, func(p *place) {
		for range 8 {
			p.take(of("a", hit("a", 1)))
			p.take(of("b", hit("b", 2)), hit("none", 1))
			p.later(100 * time.Millisecond)
		}
		all, total := p.store.Rules(), p.store.Stats()
		if len(all) != 2 {
			t.Fatalf("%d rules are counted, want a and b", len(all))
		}
		var sum regional.Counts
		for rule, r := range all {
			if r.Rule != rule || r.Granted == 0 || r.Leased == 0 || r.Held == 0 || r.Buckets != 1 || r.Excess() != 0 {
				t.Errorf("%s: %+v", rule, r)
			}
			if r.Granted != r.Used+r.Returned+r.Lost+r.Held+r.UnderWay {
				t.Errorf("%s: hits are not conserved: %+v", rule, r)
			}
			sum.Used, sum.Reserved = sum.Used+r.Used, sum.Reserved+r.Reserved
		}
		if all["a"].Used >= all["b"].Used {
			t.Errorf("%d hits passed by leases of a, %d of b; want fewer", all["a"].Used, all["b"].Used)
		}
		if total.Used <= sum.Used || total.Reserved <= sum.Reserved || total.Buckets != 3 {
			t.Errorf("all: %+v; want what has no rule beside %+v", total, sum)
		}
	})
}

// The level is that of the key with the least reserve left, of late.
func TestLevelOfReserves(t *testing.T) {
	inPlace(t, func(p *place) {
		level := func(want float64, known bool) {
			t.Helper()
			var got regional.RuleStats
			if r := p.store.Rules()["r"]; r != nil {
				got = *r
			}
			if got.ReserveLeft != want || got.LevelKnown != known {
				t.Errorf("%v is left (%v), want %v (%v)", got.ReserveLeft, got.LevelKnown, want, known)
			}
		}
		level(0, false)
		p.take(of("r", hit("k", 4))) // of a reserve of 10
		level(0.6, true)
		p.take(of("r", hit("other", 1)))
		level(0.6, true)
		p.later(regional.LevelSpan / 2)
		p.take(of("r", hit("other", 1)))
		level(0.6, true)
		p.later(regional.LevelSpan / 2)
		level(0.8, true)
		p.later(regional.LevelSpan)
		level(0, false)
	})
}

// A rule that is gone has no row, what is held of it goes home, and nothing that was counted
// of it is lost. When it is back it counts anew.
func TestRulesThatAreGone(t *testing.T) {
	inPlace(t, func(p *place) {
		warm := func(rule string) {
			for range 5 {
				p.take(of(rule, hit(rule, 1)))
				p.later(100 * time.Millisecond)
			}
		}
		warm("stays")
		warm("goes")
		before := p.store.Rules()["goes"]
		if before == nil || before.Held == 0 {
			t.Fatalf("before: %+v", before)
		}
		used := p.store.Stats().Used
		p.store.Forget(func(rule string) bool { return rule == "stays" })
		if all := p.store.Rules(); all["goes"] != nil || all["stays"] == nil {
			t.Errorf("after: %+v", all)
		}
		if st := p.store.Stats(); st.Used != used || st.UnderWay == 0 {
			t.Errorf("after: %+v; want %d used, and what was held on its way home", st, used)
		}
		p.later(time.Second)
		warm("goes")
		r := p.store.Rules()["goes"]
		if r == nil || r.Granted == 0 || r.Used >= before.Used+before.Used || r.Excess() != 0 {
			t.Errorf("back: %+v", r)
		}
	})
}

// What is lent for a rule that is gone meanwhile goes home.
func TestLentToARuleThatIsGone(t *testing.T) {
	inPlace(t, func(p *place) {
		for range 3 {
			p.take(of("goes", hit("k", 1)))
		}
		p.later(160 * time.Millisecond) // the epoch is known, and the home lends
		p.store.Forget(func(string) bool { return false })
		p.later(time.Second)
		if st := p.store.Stats(); st.Granted == 0 || st.Returned != st.Granted || st.Buckets != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Rules beyond the bound are counted together.
func TestTooManyRules(t *testing.T) {
	inPlace(t, func(p *place) {
		const more = 100 // all of one shard, because the key is one
		for i := range regional.MaxRules + more {
			p.take(of(fmt.Sprint(i), hit("k", 0)))
		}
		if n := len(p.store.Rules()); n != regional.MaxRules {
			t.Errorf("%d rules are counted, want %d", n, regional.MaxRules)
		}
		if st := p.store.Stats(); st.Reserved != regional.MaxRules+more {
			t.Errorf("%d takes are counted of %d", st.Reserved, regional.MaxRules+more)
		}
	})
}

// How the home is stays known while nobody asks for hits.
func TestHomeIsWatched(t *testing.T) {
	inPlace(t, func(p *place) {
		ctx, cancel := context.WithCancel(p.t.Context())
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			p.store.Watch(ctx)
		}()
		p.later(time.Second)
		if st := p.store.Stats(); !st.Known || !st.Connected || st.RoundTrip != 50*time.Millisecond {
			t.Errorf("at first %+v", st)
		}
		p.later(time.Minute)
		if st := p.store.Stats(); st.Heard > 5*time.Second || st.Asked != 0 {
			t.Errorf("after a minute %+v", st)
		}
		p.home.down.Store(true)
		p.later(20 * time.Second)
		if st := p.store.Stats(); st.Connected || st.Heard < 15*time.Second || st.Unanswered < 5 {
			t.Errorf("without it %+v", st)
		}
		p.home.down.Store(false)
		p.later(5 * time.Second)
		if st := p.store.Stats(); !st.Connected || st.Heard > 5*time.Second {
			t.Errorf("after it has come back %+v", st)
		}
		cancel()
		<-watched
	})
}

// The time that renewals take is counted.
func TestRenewalsAreTimed(t *testing.T) {
	inPlace(t, func(p *place) {
		p.warm()
		c := p.store.Stats().Renewals
		calls := uint64(0)
		for _, n := range c.Buckets {
			calls += n
		}
		if calls == 0 || c.Total < time.Duration(calls)*100*time.Millisecond {
			t.Errorf("%d renewals took %v; want a tenth of a second each", calls, c.Total)
		}
	})
}

// suspending is a store during whose calls the machine is suspended.
type suspending struct {
	store.Store
	suspend func()
}

func (s *suspending) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	s.Store.Take(ctx, takes, results)
	s.suspend()
}

// A machine that is suspended while the reserve is asked answers what it was asked, also where
// the reserve denies it and where it holds back a group.
func TestSuspendedWhileTheReserveIsAsked(t *testing.T) {
	inPlace(t, func(p *place) {
		own := &suspending{p.own, func() { p.wall.Add(int64(time.Hour)) }}
		s, err := regional.New(regional.Options{
			Home: p.home, Own: own, Layout: halves, Region: "here",
			Wall: func() time.Time { return time.Now().Add(time.Duration(p.wall.Load())) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		results := make([]store.Result, 1)
		s.Take(p.t.Context(), []store.Take{hit("k", 50)}, results)
		if results[0].Err != nil || results[0].Allowed {
			t.Errorf("%+v", results[0])
		}
		for p.store = s; s.Stats().Held == 0; p.later(200 * time.Millisecond) {
			own.suspend = func() {}
			p.hits(2)
		}
		own.suspend = func() { p.wall.Add(int64(time.Hour)) }
		group := []store.Take{hit("k", 1), {Key: []byte("other"), Limit: limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 100, Period: time.Minute}), Hits: 90}}
		for i := range group {
			group[i].Group = 1
		}
		results = make([]store.Result, 2)
		s.Take(p.t.Context(), group, results)
		if results[1].Err != nil || results[1].Allowed {
			t.Errorf("%+v", results)
		}
	})
}

// full is a home that tells its epoch, and has no room for leases while fault says so.
type full struct {
	*farHome
	fault *store.Error
}

func (f *full) Lease(ctx context.Context, requests []store.LeaseRequest, grants []store.Grant) {
	if f.fault == nil {
		f.farHome.Lease(ctx, requests, grants)
		return
	}
	for i := range grants {
		grants[i].Err = f.fault
	}
}

// Why a home lends nothing is known, also where it answers what it is asked about its epoch.
func TestWhyAHomeLendsNothing(t *testing.T) {
	inPlace(t, func(p *place) {
		home := &full{p.home, &store.Error{Op: "lease", Reason: store.Full, Hint: "raise maxmemory"}}
		s, err := regional.New(regional.Options{Home: home, Own: p.own, Layout: halves, Region: "here"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		p.store = s
		p.hits(3)
		p.later(3 * time.Second)
		if st := s.Stats(); !st.Connected || st.Granted != 0 || st.Reason != store.Full || st.Hint != "raise maxmemory" {
			t.Errorf("of a home that is full: %+v", st)
		}
		for home.fault = nil; s.Stats().Granted == 0; p.later(500 * time.Millisecond) {
			p.hits(1)
		}
		if st := s.Stats(); st.Reason != store.NoReason || st.Hint != "" {
			t.Errorf("of one that lends again: %+v", st)
		}
		p.home.down.Store(true)
		p.hits(1)
		p.later(5 * time.Second)
		p.hits(1)
		if st := s.Stats(); st.Connected || st.Reason == store.NoReason {
			t.Errorf("of one that is away: %+v", st)
		}
		p.home.down.Store(false)
		p.later(5 * time.Second)
	})
}

// What a home refuses is counted as not answered, and why it did not answer is forgotten once it answers.
func TestReasonsEnd(t *testing.T) {
	inPlace(t, func(p *place) {
		home := &full{p.home, &store.Error{Op: "lease", Reason: store.Full}}
		s, err := regional.New(regional.Options{Home: home, Own: p.own, Layout: halves, Region: "here"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		p.store = s
		p.hits(3)
		p.later(3 * time.Second)
		if st := s.Stats(); st.Failed == 0 || st.Failed != st.Asked || st.Unsure != 0 {
			t.Errorf("of a home that is full: %+v", st)
		}
		p.home.down.Store(true)
		p.hits(1)
		p.later(5 * time.Second)
		if st := s.Stats(); st.Reason == store.NoReason || st.Reason == store.Full {
			t.Errorf("of one that is away: %+v", st)
		}
		p.home.down.Store(false)
		for home.fault = nil; s.Stats().Granted == 0; p.later(500 * time.Millisecond) {
			p.hits(1)
		}
		if st := s.Stats(); st.Reason != store.NoReason || !st.Connected {
			t.Errorf("of one that is back: %+v", st)
		}
	})
}
