package headgate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/verdict"
)

const banning = `
domain: d
descriptors:
- {key: user, rate_limit: {unit: second, requests_per_unit: 1}, ban: {after: 3, within: 1m, for: 15m}}
- {key: other, rate_limit: {unit: second, requests_per_unit: 1}}
`

//promise:more-than-rates
func TestBanAfterRepeatedDenials(t *testing.T) {
	seen := &recording{}
	b := newBench(t, banning, headgate.Options{Store: seen})
	b.take(0, "user:u") // what passes is counted apart
	seen.calls = 0
	for i := range 3 {
		r := b.by(0, store.Hit, 1, "user:u")
		if v := r.Speaker(); r.Allowed || v.Role != rules.Main || seen.calls != 2 {
			t.Fatalf("denial %d: allowed=%v by %v in %d calls, want by main, in 2 with the one that counts it", i+1, r.Allowed, v.Role, seen.calls)
		}
		if c := seen.takes[0]; len(seen.takes) != 1 || c.Op != store.Charge || c.Hits != 1 || c.Group != 0 || c.Limit.Algorithm != limit.Ban {
			t.Errorf("denial %d is counted by %+v", i+1, seen.takes)
		}
		seen.calls = 0
	}
	b.now = b.now.Add(2 * time.Second)
	r := b.by(0, store.Hit, 1, "user:u")
	if v := r.Speaker(); r.Allowed || v.Role != rules.Banning || v.Decision.RetryAfter != 15*time.Minute-2*time.Second || seen.calls != 1 {
		t.Fatalf("banned: allowed=%v by %v, %+v, in %d calls", r.Allowed, v.Role, v.Decision, seen.calls)
	}
	for range 10 { // what is denied by a ban neither counts nor makes it longer
		b.take(0, "user:u")
	}
	if !b.take(0, "user:w") || !b.take(0, "other:u") {
		t.Error("the ban holds for others")
	}
	b.now = b.now.Add(15*time.Minute - 2*time.Second - time.Microsecond)
	if b.take(0, "user:u") {
		t.Error("the ban ended early")
	}
	b.now = b.now.Add(time.Microsecond)
	if !b.take(0, "user:u") {
		t.Error("the ban did not end")
	}
}

// What is in shadow mode counts towards a ban in shadow mode; what only peeks, is
// given back, or is denied by another rule or by the failure mode counts not.
func TestWhatCountsTowardsABan(t *testing.T) {
	isDay := func(t *store.Take) bool { return t.Limit.Quota == 1 }
	for name, c := range map[string]struct {
		yaml   string
		deny   func(b *bench)
		fails  func(*store.Take) bool
		banned bool
	}{
		"hits":   {deny: func(b *bench) { b.take(0, "user:u") }, banned: true},
		"peeks":  {deny: func(b *bench) { b.by(0, store.Hit, 0, "user:u") }},
		"shadow": {yaml: strings.Replace(banning, "key: user,", "key: user, shadow_mode: true,", 1), deny: func(b *bench) { b.take(0, "user:u") }, banned: true},
		"a slot": {yaml: strings.Replace(banning, "key: user,", "key: user, concurrency: 1,", 1), deny: func(b *bench) { b.take(9, "user:u") }, banned: true},
		"of another rule": {deny: func(b *bench) {
			b.take(0, "user:u", "other:u")
		}, yaml: strings.Replace(banning, "requests_per_unit: 1}, ban", "requests_per_unit: 100}, ban", 1)},
		"the failure mode": {yaml: strings.Replace(banning, "key: user,", "key: user, failure_mode: closed,", 1), deny: func(b *bench) { b.take(0, "user:u") }, fails: isDay},
	} {
		seen := &recording{}
		yaml := c.yaml
		if yaml == "" {
			yaml = banning
		}
		b := newBench(t, yaml, headgate.Options{Store: seen})
		b.take(1, "user:u")
		b.take(1, "other:u")
		seen.fails = c.fails
		for range 3 {
			c.deny(b)
		}
		seen.fails = nil
		b.now = b.now.Add(2 * time.Second)
		r := b.by(1, store.Hit, 1, "user:u")
		i := slices.IndexFunc(r.Verdicts, func(v headgate.Verdict) bool { return v.Role == rules.Banning })
		if got := !r.Verdicts[i].Decision.Allowed; got != c.banned || r.Allowed == (got && r.Verdicts[i].Enforced()) {
			t.Errorf("%s: banned=%v, want %v; allowed=%v", name, got, c.banned, r.Allowed)
		}
	}
}

// The denials of all requests of a Check are counted in one call, those of one
// request on one bucket once.
func TestDenialsAreCountedInOneCall(t *testing.T) {
	for name, match := range map[string]string{"leaf": "leaf", "path": "path"} {
		seen := &recording{}
		b := newBench(t, "match: "+match+`
domain: d
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 0}
  limits: [{unit: hour, requests_per_unit: 0}]
  ban: {after: 9, within: 1m, for: 15m}
  descriptors:
  - {key: op}
`, headgate.Options{Store: seen})
		requests := []headgate.Request{
			{Domain: "d", Descriptors: []headgate.Descriptor{on("user:a")}},
			{Domain: "d", Descriptors: []headgate.Descriptor{on("user:b,op:x"), on("user:b")}},
			{Domain: "d", Descriptors: []headgate.Descriptor{on("user:a")}},
		}
		if err := b.limiter.Check(t.Context(), requests, make([]headgate.Response, 3)); err != nil {
			t.Fatal(err)
		}
		if seen.calls != 2 || len(seen.takes) != 3 {
			t.Errorf("%s: %d calls, the last with %d takes, want 2 with 3", name, seen.calls, len(seen.takes))
		}
	}
}

func TestBanOfTheNodeWhileTheStoreIsAway(t *testing.T) {
	b := newBench(t, strings.Replace(banning, "key: user,", "key: user, failure_mode: local,", 1), headgate.Options{
		Store: &recording{Store: memory(t), fails: always}, Fallback: memory(t),
	})
	for range 4 {
		b.take(0, "user:u")
	}
	if v := b.by(0, store.Hit, 1, "user:u").Speaker(); v.Role != rules.Banning || v.By != verdict.ByLocalShare || v.Decision.RetryAfter != 15*time.Minute {
		t.Errorf("%v says %+v", v.Role, v)
	}
}

// What is given back of a request that fell apart takes no denial back.
func TestGivingBackKeepsDenials(t *testing.T) {
	buckets := &halfDown{}
	b := newBench(t, "", headgate.Options{})
	own, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(b.now) }})
	if err != nil {
		t.Fatal(err)
	}
	buckets.Store = own
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: load(t, banning+"- {key: closed, failure_mode: closed, rate_limit: {unit: second, requests_per_unit: 2}}\n")})
	if err != nil {
		t.Fatal(err)
	}
	b.limiter = limiter
	for range 3 {
		b.take(0, "user:u") // two are denied
	}
	b.now = b.now.Add(2 * time.Second)
	buckets.down = true
	for range 3 {
		if b.take(0, "user:u", "closed:x") {
			t.Fatal("passes without the store")
		}
	}
	buckets.down = false
	if !b.take(0, "user:u") {
		t.Error("the hits were not given back")
	}
	b.take(0, "user:u") // the third
	if v := b.by(0, store.Hit, 1, "user:u").Speaker(); v.Role != rules.Banning {
		t.Errorf("%v speaks after three denials, want the ban", v.Role)
	}
}

func TestAResetLiftsABanAndFreesAllSlots(t *testing.T) {
	b := newBench(t, strings.Replace(banning, "key: user,", "key: user, concurrency: 2,", 1), headgate.Options{})
	for range 5 {
		b.take(1, "user:u")
	}
	reset := on("user:u")
	reset.Op, reset.Hits = store.Reset, 0
	b.check(reset)
	if !b.take(2, "user:u") || b.free("user:u") != 1 {
		t.Errorf("denied after a reset, or %d slots free, want 1", b.free("user:u"))
	}
}

// What costs nothing is not admitted while a ban lasts, and takes a slot.
func TestRequestsWithoutCostAreHeldAndBanned(t *testing.T) {
	b := newBench(t, `
domain: d
descriptors:
- key: user
  cost: {from: entry, name: tokens}
  concurrency: 1
  rate_limit: {unit: hour, requests_per_unit: 10}
  ban: {after: 1, within: 1m, for: 15m}
`, headgate.Options{})
	if !b.take(1, "user:u,tokens:0") || b.free("user:u") != 0 {
		t.Error("a request that costs nothing holds no slot")
	}
	b.take(1, "user:u,tokens:11")
	if b.take(1, "user:u,tokens:0") {
		t.Error("passes though it is banned")
	}
}

func TestSpeakerAmongRoles(t *testing.T) {
	ten := limit.Must(limit.PerMinute(10))
	said := func(role rules.Role, d limit.Decision) headgate.Verdict {
		return headgate.Verdict{Role: role, Limit: ten, Decision: d}
	}
	denies := func(role rules.Role, wait time.Duration) headgate.Verdict {
		return said(role, limit.Decision{RetryAfter: wait})
	}
	passes := func(role rules.Role, remaining int64) headgate.Verdict {
		return said(role, limit.Decision{Allowed: true, Remaining: remaining})
	}
	never := denies(rules.Main, 0)
	never.Decision.Never = true
	degraded := headgate.Verdict{Limit: ten, By: verdict.ByFailureMode, Degraded: store.Timeout, Decision: limit.Decision{Allowed: true}}
	for name, c := range map[string][2]headgate.Verdict{ // the first speaks
		"a ban before a longer wait":               {denies(rules.Banning, time.Minute), denies(rules.Main, time.Hour)},
		"a ban before what never passes":           {denies(rules.Banning, time.Minute), never},
		"a shorter wait before concurrency":        {denies(rules.Main, time.Second), denies(rules.InFlight, time.Minute)},
		"secondary before concurrency":             {denies(rules.Secondary, time.Second), denies(rules.InFlight, time.Minute)},
		"a denial by concurrency before counts":    {denies(rules.InFlight, time.Minute), passes(rules.Main, 0)},
		"secondary by its wait":                    {denies(rules.Secondary, time.Minute), denies(rules.Main, time.Second)},
		"main before what is tighter: concurrency": {passes(rules.Main, 9), passes(rules.InFlight, 1)},
		"main before what is tighter: secondary":   {passes(rules.Main, 9), passes(rules.Secondary, 1)},
		"main before what is tighter: sustained":   {passes(rules.Main, 9), passes(rules.Sustained, 1)},
		"main before what is tighter: ban":         {passes(rules.Main, 9), passes(rules.Banning, 1)},
		"main without counts before the others":    {degraded, passes(rules.Secondary, 1)},
	} {
		for _, list := range [][]headgate.Verdict{{c[0], c[1]}, {c[1], c[0]}} {
			r := headgate.Response{Allowed: c[0].Decision.Allowed, Verdicts: list}
			if got := r.Speaker(); got.Role != c[0].Role || got.Decision != c[0].Decision {
				t.Errorf("%s: %v speaks", name, got.Role)
			}
		}
	}
	alone := headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{passes(rules.InFlight, 3)}}
	if v := alone.Speaker(); v == nil || v.Decision.Remaining != 3 {
		t.Error("what stands alone does not speak")
	}
}

const softly = `
domain: d
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 10}
  secondary_limits: [{unit: hour, requests_per_unit: 10}]
  soft_limit: {at: 75%, action: delay, delay: 250ms}
`

//promise:more-than-rates
func TestSoftLimitActsAboveItsShare(t *testing.T) {
	b := newBench(t, softly, headgate.Options{})
	for i := 1; i <= 11; i++ {
		r := b.check(on("user:u"))
		reached := 0
		for j := range r.Verdicts {
			if soft := r.Verdicts[j].Soft(); soft != nil {
				reached++
				if soft.Action != rules.Delay || r.Verdicts[j].Role != rules.Main {
					t.Errorf("hit %d: %+v of %v", i, soft, r.Verdicts[j].Role)
				}
			}
		}
		above := i >= 8 && i <= 10
		if want := 250 * time.Millisecond; (reached == 1) != above || (r.Delay() == want) != above || r.Allowed != (i <= 10) {
			t.Errorf("hit %d: allowed=%v, %d soft limits reached, delay %v", i, r.Allowed, reached, r.Delay())
		}
	}
	if r := b.check(on("user:other")); r.Delay() != 0 {
		t.Error("the delay of one user is for others too")
	}
}

func TestSoftLimitNeedsCountsThatAreEnforced(t *testing.T) {
	v := headgate.Verdict{
		Rule: &rules.Rule{Telling: rules.Telling{Soft: &rules.Soft{Percent: 80}}}, Limit: limit.Must(limit.PerMinute(10)),
		Decision: limit.Decision{Allowed: true, Limit: 10, Remaining: 2},
	}
	if v.Soft() != v.Rule.Soft {
		t.Fatal("not reached at 80 %")
	}
	for name, change := range map[string]func(v *headgate.Verdict){
		"below":       func(v *headgate.Verdict) { v.Decision.Remaining = 3 },
		"denied":      func(v *headgate.Verdict) { v.Decision.Allowed = false },
		"shadow":      func(v *headgate.Verdict) { v.Effect = verdict.RuleShadow },
		"degraded":    func(v *headgate.Verdict) { v.By, v.Degraded = verdict.ByFailureMode, store.Timeout },
		"skipped":     func(v *headgate.Verdict) { v.By = verdict.BySkipping },
		"no main one": func(v *headgate.Verdict) { v.Role = rules.Secondary },
		"no soft one": func(v *headgate.Verdict) { v.Rule = &rules.Rule{} },
		"no rule":     func(v *headgate.Verdict) { v.Rule = nil },
	} {
		other := v
		if change(&other); other.Soft() != nil {
			t.Errorf("%s: reached", name)
		}
	}
	v.Decision.Limit, v.Decision.Remaining = limit.MaxQuota, 1 // no overflow
	if v.Soft() == nil {
		t.Error("not reached at the end of the largest limit")
	}
}

// TestBanBehindRememberedDenials: where denials are remembered, the store is not
// asked for the ban of a request that is known to be denied, and the denial counts
// towards it all the same. The ban speaks once the remembered denial has ended.
func TestBanBehindRememberedDenials(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(now) }})
	if err != nil {
		t.Fatal(err)
	}
	defer buckets.Close()
	remembering := denial.New(buckets, denial.Options{Now: func() time.Time { return now }})
	set := testrules.Load(t, banning)
	limiter, err := headgate.New(headgate.Options{Store: remembering, Rules: set, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	var by []string
	for i := range 6 {
		if i == 4 {
			now = now.Add(3 * time.Second)
		}
		responses := make([]headgate.Response, 1)
		request := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "user", Value: "u"}}, Hits: 1}}}
		if err := limiter.Check(t.Context(), []headgate.Request{request}, responses); err != nil {
			t.Fatal(err)
		}
		by = append(by, responses[0].Speaker().Role.String())
	}
	if got, want := strings.Join(by, " "), "main main main main ban ban"; got != want {
		t.Errorf("one hit, three denials, and two hits seconds later: %s, want %s", got, want)
	}
}
