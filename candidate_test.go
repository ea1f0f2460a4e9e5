package headgate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/trial"
	"github.com/headgate/headgate/verdict"
)

// candidateRules are a rule with 4 per minute and a candidate of 2, and more in place of
// %s.
const candidateRules = `
domain: d
match: path
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 4, algorithm: fixed_window}
  candidate:
    rate_limit: {unit: minute, requests_per_unit: 2, algorithm: fixed_window}
    %s
`

// tell returns the verdicts of a response in short: role, remaining, and what they are.
func tell(r *headgate.Response) string {
	var parts []string
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		word := "allows"
		if !v.Decision.Allowed {
			word = "denies"
		}
		if v.Effect == verdict.Trial {
			word = "would " + strings.TrimSuffix(word, "s")
			word = strings.Replace(word, "denie", "deny", 1)
		}
		parts = append(parts, fmt.Sprintf("%v %s at %d", v.Role, word, v.Decision.Remaining))
	}
	return strings.Join(parts, ", ")
}

func (b *bench) wantReport(want trial.Report) {
	b.t.Helper()
	got := b.limiter.Candidates()
	if len(got) != 1 {
		b.t.Fatalf("%d reports", len(got))
	}
	r := got[0]
	if r.Decided != want.Decided || r.Denied != want.Denied || r.CandidateDenied != want.CandidateDenied ||
		r.Added != want.Added || r.Avoided != want.Avoided || r.RolledBack.IsZero() != want.RolledBack.IsZero() {
		b.t.Fatalf("got %+v, want %+v", r, want)
	}
}

// Both buckets count, and which one denies is said by whom the candidate is for.
func TestRealAndCandidateBothCount(t *testing.T) {
	for name, c := range map[string]struct {
		candidate string
		want      [6]string // of requests of tenant user:a
		passes    int
		report    trial.Report
	}{
		"it watches": {"", [6]string{
			"main allows at 3, candidate would allow at 1", "main allows at 2, candidate would allow at 0",
			"main allows at 1, candidate would deny at 0", "main allows at 0, candidate would deny at 0",
			"main denies at 0, candidate would deny at 0", "main denies at 0, candidate would deny at 0",
		}, 4, trial.Report{Decided: 6, Denied: 2, CandidateDenied: 4, Added: 2}},
		"it is for a tenant": {`tenants: ["user:a"]`, [6]string{
			"main would allow at 3, candidate allows at 1", "main would allow at 2, candidate allows at 0",
			"main would allow at 1, candidate denies at 0", "main would allow at 0, candidate denies at 0",
			"main would deny at 0, candidate denies at 0", "main would deny at 0, candidate denies at 0",
		}, 2, trial.Report{Decided: 6, Denied: 2, CandidateDenied: 4, Added: 2}},
		"it is for all": {`percent: 100`, [6]string{
			"main would allow at 3, candidate allows at 1", "main would allow at 2, candidate allows at 0",
			"main would allow at 1, candidate denies at 0", "main would allow at 0, candidate denies at 0",
			"main would deny at 0, candidate denies at 0", "main would deny at 0, candidate denies at 0",
		}, 2, trial.Report{Decided: 6, Denied: 2, CandidateDenied: 4, Added: 2}},
		"it is for another": {`tenants: ["user:b"]`, [6]string{
			"main allows at 3, candidate would allow at 1", "main allows at 2, candidate would allow at 0",
			"main allows at 1, candidate would deny at 0", "main allows at 0, candidate would deny at 0",
			"main denies at 0, candidate would deny at 0", "main denies at 0, candidate would deny at 0",
		}, 4, trial.Report{Decided: 6, Denied: 2, CandidateDenied: 4, Added: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, fmt.Sprintf(candidateRules, c.candidate), headgate.Options{})
			passed := 0
			for i, want := range c.want {
				r := b.check(on("user:a"))
				if got := tell(r); got != want {
					t.Errorf("request %d: got %s, want %s", i+1, got, want)
				}
				if r.Allowed {
					passed++
				}
				if v := r.SpeakerFor(0); v.Effect == verdict.Trial || !v.Enforced() || r.Speaker() != v {
					t.Errorf("request %d: a limit that watches speaks: %+v", i+1, v)
				}
			}
			if passed != c.passes {
				t.Errorf("%d passed, want %d", passed, c.passes)
			}
			b.wantReport(c.report)
		})
	}
}

// A candidate that lets more pass is charged for what only the real limit denies.
func TestAvoidedDenials(t *testing.T) {
	b := newBench(t, strings.Replace(fmt.Sprintf(candidateRules, ""), "requests_per_unit: 2", "requests_per_unit: 6", 1), headgate.Options{})
	for range 8 {
		b.check(on("user:a"))
	}
	b.wantReport(trial.Report{Decided: 8, Denied: 4, CandidateDenied: 2, Avoided: 2})
}

// The share is that of kill switches: the same tenants on every node.
func TestShareOfACandidate(t *testing.T) {
	b := newBench(t, fmt.Sprintf(candidateRules, "percent: 30"), headgate.Options{})
	for i := range 200 {
		d := on(fmt.Sprintf("user:u%d", i))
		r := b.check(d)
		if got, want := r.Verdicts[0].Effect == verdict.Trial, switches.ShareOf(d.Entries) < 30; got != want {
			t.Errorf("user:u%d: enforced %t, want %t", i, got, want)
		}
	}
}

// Shadow mode of the rule: the candidate is reported for its share, and nothing denies.
func TestCandidateInShadowMode(t *testing.T) {
	b := newBench(t, strings.Replace(fmt.Sprintf(candidateRules, "percent: 100"), "- key: user", "- key: user\n  shadow_mode: true", 1), headgate.Options{})
	for range 3 {
		b.check(on("user:a"))
	}
	r := b.check(on("user:a"))
	if v := r.SpeakerFor(0); !r.Allowed || v.Role != rules.Candidate || v.Enforced() || v.Effect == verdict.Trial || v.Decision.Allowed {
		t.Errorf("allowed %t, %+v", r.Allowed, v)
	}
}

// Denials of a candidate that watches lead to no ban, those of one that is enforced do.
func TestCandidatesAndBans(t *testing.T) {
	for candidate, want := range map[string]string{"": "main", "percent: 100": "ban"} {
		yaml := strings.Replace(fmt.Sprintf(candidateRules, candidate), "- key: user", "- key: user\n  ban: {after: 1, within: 1m, for: 1h}", 1)
		b := newBench(t, yaml, headgate.Options{})
		for range 3 {
			b.check(on("user:a"))
		}
		if r := b.check(on("user:a")); r.Speaker().Role.String() != want {
			t.Errorf("%q: %v speaks, want %s", candidate, r.Speaker().Role, want)
		}
	}
}

// A refund, a reset and a peek reach both, and are no requests.
func TestOperationsReachCandidates(t *testing.T) {
	b := newBench(t, fmt.Sprintf(candidateRules, ""), headgate.Options{})
	d := on("user:a")
	b.check(d)
	b.check(d)
	d.Op = store.Refund
	if got, want := tell(b.check(d)), "main allows at 3, candidate would allow at 1"; got != want {
		t.Errorf("refund: got %s, want %s", got, want)
	}
	d.Op = store.Reset
	if got, want := tell(b.check(d)), "main allows at 4, candidate would allow at 2"; got != want {
		t.Errorf("reset: got %s, want %s", got, want)
	}
	d.Op, d.Hits = store.Hit, 0
	if got, want := tell(b.check(d)), "main allows at 4, candidate would allow at 2"; got != want {
		t.Errorf("peek: got %s, want %s", got, want)
	}
	b.wantReport(trial.Report{Decided: 2})
}

//promise:safe-changes
func TestRollBack(t *testing.T) {
	var told []trial.Report
	yaml := fmt.Sprintf(candidateRules, "percent: 100\n    roll_back: {above: 20, over: 1m, min_requests: 4}")
	b := newBench(t, yaml, headgate.Options{OnRollBack: func(r trial.Report) { told = append(told, r) }})
	var answers []bool
	for range 5 {
		answers = append(answers, b.check(on("user:a")).Allowed)
	}
	// Two pass, the third and fourth are denied by the candidate alone: half of four
	// requests. From then on the real limit is enforced, which has counted all four.
	if got := fmt.Sprint(answers); got != "[true true false false false]" {
		t.Errorf("answers %s", got)
	}
	if got := tell(b.check(on("user:b"))); got != "main allows at 3, candidate would allow at 1" {
		t.Errorf("after the roll-back: %s", got)
	}
	if len(told) != 1 || told[0].Rule != "d.user" || told[0].Decided != 4 || told[0].Added != 2 || told[0].AddedPercent != 50 || !told[0].RolledBack.Equal(noon) {
		t.Fatalf("told %+v", told)
	}
	if told[0].Limits != "4 per 1m fixed_window" || told[0].Candidate != "2 per 1m fixed_window" || told[0].Percent != 100 {
		t.Errorf("told %+v", told[0])
	}

	// The same candidate stays rolled back over a reload, another one begins anew.
	b.limiter.SetRules(load(t, yaml+"- {key: other, rate_limit: {unit: minute, requests_per_unit: 1}}\n"))
	b.wantReport(trial.Report{Decided: 6, Denied: 1, CandidateDenied: 3, Added: 2, RolledBack: noon})
	b.limiter.SetRules(load(t, strings.Replace(yaml, "percent: 100", "percent: 99", 1)))
	b.wantReport(trial.Report{})
}

// A switch for a candidate speaks before what the node found.
func TestSwitchesOfCandidates(t *testing.T) {
	b := newBench(t, fmt.Sprintf(candidateRules, "percent: 100\n    roll_back: {above: 1, min_requests: 1}"), headgate.Options{})
	set := func(state switches.State) {
		s, err := switches.NewSet([]switches.Switch{{Target: switches.Target{Candidate: "d.user"}, State: state}})
		if err != nil {
			t.Fatal(err)
		}
		b.limiter.SetSwitches(s)
	}
	set(switches.Shadow)
	if got := tell(b.check(on("user:a"))); got != "main allows at 3, candidate would allow at 1" {
		t.Errorf("shadow: %s", got)
	}
	set(switches.Off)
	if got := tell(b.check(on("user:a"))); got != "main allows at 2" {
		t.Errorf("off: %s", got)
	}
	b.limiter.SetSwitches(nil)
	b.check(on("user:a"))
	b.check(on("user:a")) // denied by the candidate alone: rolled back
	if got := tell(b.check(on("user:a"))); got != "main denies at 0, candidate would deny at 0" {
		t.Errorf("rolled back: %s", got)
	}
	set(switches.On)
	if got := tell(b.check(on("user:a"))); got != "main would deny at 0, candidate denies at 0" {
		t.Errorf("on: %s", got)
	}
}

// A limit that has been replaced has no candidate either, and a tenant with a quota of
// its own is not part of the trial.
func TestWhereCandidatesStandAside(t *testing.T) {
	yaml := strings.Replace(fmt.Sprintf(candidateRules, ""), "rate_limit: {unit: minute, requests_per_unit: 4", "rate_limit: {name: plain, unit: minute, requests_per_unit: 4", 1)
	b := newBench(t, yaml+"- {key: vip, rate_limit: {unit: minute, requests_per_unit: 9, replaces: [{name: plain}]}}\n", headgate.Options{})
	r := b.check(on("user:a"), on("vip:x"))
	if r.Verdicts[0].By != verdict.ByReplacement || r.Verdicts[1].By != verdict.ByReplacement || r.Verdicts[2].By == verdict.ByReplacement {
		t.Errorf("%+v", r.Verdicts)
	}
	b.wantReport(trial.Report{})
}

// modelWindow is a fixed window of a minute.
type modelWindow struct {
	quota, used, minute int64
}

func (w *modelWindow) fits(now time.Time, hits int64) bool {
	if minute := now.Unix() / 60; minute != w.minute {
		w.minute, w.used = minute, 0
	}
	return w.used+hits <= w.quota
}

// modelEvent is a request that counted for the candidate.
type modelEvent struct {
	part                    int64
	denied, candidateDenied bool
}

// candidateModel is what requests on the rules of TestCandidatesAgainstAModel come to,
// in plain terms.
type candidateModel struct {
	real, candidate, op map[string]*modelWindow
	events              []modelEvent
	rolledBack          bool
}

const (
	modelAbove, modelMinRequests = 15.0, 8
	modelOver                    = 2 * time.Minute
)

func window(in map[string]*modelWindow, key string, quota int64) *modelWindow {
	if in[key] == nil {
		in[key] = &modelWindow{quota: quota}
	}
	return in[key]
}

func (m *candidateModel) decide(now time.Time, user, op string, hits int64, quotas [3]int64, share func(string) bool) bool {
	realOne, candidate := window(m.real, user, quotas[0]), window(m.candidate, user, quotas[1])
	realFits, candidateFits, opFits := realOne.fits(now, hits), candidate.fits(now, hits), true
	var nested *modelWindow
	if op != "" {
		nested = window(m.op, user+"/"+op, quotas[2])
		opFits = nested.fits(now, hits)
	}
	inForceFits := realFits
	if share(user) && !m.rolledBack {
		inForceFits = candidateFits
	}
	if !opFits {
		return false // and nothing is charged, nor counted
	}
	if realFits {
		realOne.used += hits
	}
	if candidateFits {
		candidate.used += hits
	}
	if nested != nil && inForceFits {
		nested.used += hits
	}
	m.events = append(m.events, modelEvent{now.UnixMicro() / (modelOver.Microseconds() / 60), !realFits, !candidateFits})
	r := m.report(now)
	if r.Decided >= modelMinRequests && float64(r.Added)*100 > modelAbove*float64(r.Decided) {
		m.rolledBack = true
	}
	return inForceFits
}

func (m *candidateModel) report(now time.Time) (r trial.Report) {
	oldest := now.UnixMicro()/(modelOver.Microseconds()/60) - 60
	for _, e := range m.events {
		if e.part <= oldest {
			continue
		}
		r.Decided++
		if e.denied {
			r.Denied++
		}
		if e.candidateDenied {
			r.CandidateDenied++
		}
		if e.candidateDenied && !e.denied {
			r.Added++
		}
		if e.denied && !e.candidateDenied {
			r.Avoided++
		}
	}
	if m.rolledBack {
		r.RolledBack = now
	}
	return r
}

// TestCandidatesAgainstAModel sends random traffic of two users through a rule with a
// candidate and another rule below it, which may deny too, over a plain store and over
// one that remembers denials, and compares every answer and report with the model.
func TestCandidatesAgainstAModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		quotas := [3]int64{rapid.Int64Range(1, 8).Draw(r, "real"), rapid.Int64Range(1, 8).Draw(r, "candidate"), rapid.Int64Range(1, 8).Draw(r, "op")}
		whose := rapid.SampledFrom([]string{"", `tenants: ["user:a"]`, "percent: 100"}).Draw(r, "whose")
		share := func(user string) bool { return whose == "percent: 100" || whose != "" && user == "a" }
		yaml := fmt.Sprintf(`
domain: d
match: path
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: %d, algorithm: fixed_window}
  candidate:
    rate_limit: {unit: minute, requests_per_unit: %d, algorithm: fixed_window}
    roll_back: {above: %v, over: %s, min_requests: %d}
    %s
  descriptors:
  - {key: op, rate_limit: {unit: minute, requests_per_unit: %d, algorithm: fixed_window}}
`, quotas[0], quotas[1], modelAbove, modelOver, modelMinRequests, whose, quotas[2])
		b := &bench{t: t, now: noon}
		var buckets store.Store
		buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(b.now) }})
		if err != nil {
			r.Fatal(err)
		}
		ops := []string{"", "read"}
		if rapid.Bool().Draw(r, "remembers denials") {
			ops = ops[:1] // what else denies is not looked at then
			buckets = denial.New(buckets, denial.Options{Now: func() time.Time { return b.now }})
		}
		b.limiter, err = headgate.New(headgate.Options{Store: buckets, Rules: load(t, yaml), Now: func() time.Time { return b.now }})
		if err != nil {
			r.Fatal(err)
		}
		m := &candidateModel{real: map[string]*modelWindow{}, candidate: map[string]*modelWindow{}, op: map[string]*modelWindow{}}
		for range rapid.IntRange(1, 60).Draw(r, "requests") {
			b.now = b.now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 7, 31, 200}).Draw(r, "seconds")) * time.Second)
			user, op := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "user"), rapid.SampledFrom(ops).Draw(r, "op")
			text := "user:" + user
			if op != "" {
				text += ",op:" + op
			}
			d := on(text)
			d.Hits = rapid.Int64Range(1, 3).Draw(r, "hits")
			want := m.decide(b.now, user, op, d.Hits, quotas, share)
			if whose == "" {
				m.rolledBack = false // there is nothing to take back
			}
			if got := b.check(d); got.Allowed != want {
				r.Fatalf("at %v %s of %d: allowed %t, want %t: %s", b.now, text, d.Hits, got.Allowed, want, tell(got))
			}
			got, model := b.limiter.Candidates()[0], m.report(b.now)
			if got.Decided != model.Decided || got.Denied != model.Denied || got.CandidateDenied != model.CandidateDenied ||
				got.Added != model.Added || got.Avoided != model.Avoided || got.RolledBack.IsZero() == m.rolledBack {
				r.Fatalf("at %v %s of %d:\n got %+v\nwant %+v", b.now, text, d.Hits, got, model)
			}
		}
	})
}

// A clock that steps back counts on; one that steps back by more than the span begins
// anew, and nothing is counted twice.
func TestReportWhenTheClockStepsBack(t *testing.T) {
	b := newBench(t, fmt.Sprintf(candidateRules, ""), headgate.Options{})
	b.check(on("user:a"))
	b.now = noon.Add(-time.Minute)
	b.check(on("user:a"))
	b.wantReport(trial.Report{Decided: 2})
	b.now = noon.Add(-time.Hour)
	b.check(on("user:b"))
	b.wantReport(trial.Report{Decided: 1})
	b.now = noon
	b.wantReport(trial.Report{})
}

// Many at once: each request is counted once, and one of them rolls back.
func TestRollBackOnceUnderLoad(t *testing.T) {
	var mu sync.Mutex
	told := 0
	b := newBench(t, fmt.Sprintf(candidateRules, "percent: 100\n    roll_back: {above: 1, min_requests: 10}"), headgate.Options{
		OnRollBack: func(trial.Report) { mu.Lock(); told++; mu.Unlock() },
	})
	const workers, each = 8, 50
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			requests, responses := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{on("user:a")}}}, make([]headgate.Response, 1)
			for range each {
				if err := b.limiter.Check(context.Background(), requests, responses); err != nil {
					t.Error(err)
				}
				b.limiter.Candidates()
			}
		})
	}
	all.Wait()
	if r := b.limiter.Candidates()[0]; told != 1 || r.Decided != workers*each || r.RolledBack.IsZero() {
		t.Errorf("told %d times, %+v", told, r)
	}
}

// Two descriptors that share the bucket of the rule are one request to it.
func TestARequestCountsOnceForACandidate(t *testing.T) {
	b := newBench(t, fmt.Sprintf(candidateRules, "")+"  descriptors: [{key: op, rate_limit: {unit: minute, requests_per_unit: 1}}]\n", headgate.Options{})
	b.check(on("user:a,op:x"), on("user:a,op:y"))
	b.wantReport(trial.Report{Decided: 1})
	// What the rule below denies is no matter of this one, and charged nowhere.
	b.check(on("user:a,op:x"))
	b.wantReport(trial.Report{Decided: 1})
	if got, want := tell(b.check(on("user:a"))), "main allows at 2, candidate would allow at 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// With consumption: independent each limit is charged on its own, a candidate too.
func TestCandidatesAreIndependent(t *testing.T) {
	b := newBench(t, "consumption: independent"+fmt.Sprintf(candidateRules, "")+"  descriptors: [{key: op, rate_limit: {unit: minute, requests_per_unit: 1}}]\n", headgate.Options{})
	for range 3 {
		b.check(on("user:a,op:x"))
	}
	if got, want := tell(b.check(on("user:a"))), "main allows at 0, candidate would deny at 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.wantReport(trial.Report{Decided: 2, CandidateDenied: 1, Added: 1})

	// What only the main limit denies was charged to the candidate at once, and is once.
	b = newBench(t, "consumption: independent"+strings.Replace(fmt.Sprintf(candidateRules, ""), "requests_per_unit: 2", "requests_per_unit: 6", 1), headgate.Options{})
	for range 5 {
		b.check(on("user:a"))
	}
	if got, want := tell(b.check(on("user:a"))), "main denies at 0, candidate would allow at 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A tenant with a quota of its own has neither the main limits nor the candidate.
func TestTenantsWithQuotasAreNotPartOfATrial(t *testing.T) {
	b := newBench(t, strings.Replace(fmt.Sprintf(candidateRules, "percent: 100"), "- key: user", "- key: api_key\n  tenant: true", 1), headgate.Options{})
	b.limiter.SetTenants(snapshot(t, tiered("b", "bare")))
	for text, want := range map[string]string{
		"api_key:f": "api_key 10/minute tier free",
		"api_key:b": "api_key 4/minute rule bare; api_key 2/minute(candidate) rule bare",
	} {
		if got := counted(b.check(on(text))); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	b.wantReport(trial.Report{Decided: 1})
}

// Two descriptors of a request share a bucket, and the candidate is for one of them
// alone: a denial of the other is one of the request, and charges nothing.
func TestASharedBucketIsEnforcedIfOneSaysSo(t *testing.T) {
	within, beyond := "", ""
	for i := range 100 {
		text := fmt.Sprintf("user:a,op:o%d", i)
		if switches.ShareOf(on(text).Entries) < 50 {
			within = text
		} else {
			beyond = text
		}
	}
	b := newBench(t, strings.Replace(fmt.Sprintf(candidateRules, "percent: 50"), "requests_per_unit: 2", "requests_per_unit: 9", 1)+`
  descriptors: [{key: op, rate_limit: {unit: minute, requests_per_unit: 9}}]
`, headgate.Options{})
	for range 4 {
		b.check(on(within), on(beyond))
	}
	if r := b.check(on(within), on(beyond)); r.Allowed {
		t.Errorf("the fifth of four passes: %s", tell(r))
	}
	if got := b.remaining(within); got != 5 {
		t.Errorf("%d left of 9 after four that passed", got)
	}
}

// A store that fails decides nothing, and nothing is counted or rolled back for it.
func TestNothingIsReportedWithoutAStore(t *testing.T) {
	b := newBench(t, fmt.Sprintf(candidateRules, "percent: 100\n    roll_back: {above: 1, min_requests: 1}"), headgate.Options{Store: failing{errors.New("away")}})
	for range 3 {
		b.check(on("user:a"))
	}
	b.wantReport(trial.Report{})
}

// BenchmarkCandidate compares a decision by one limit with one that is compared with a
// candidate too.
func BenchmarkCandidate(b *testing.B) {
	for _, with := range []bool{false, true} {
		yaml := strings.NewReplacer("requests_per_unit: 4", "requests_per_unit: 1000000000", "requests_per_unit: 2", "requests_per_unit: 900000000").Replace(fmt.Sprintf(candidateRules, "percent: 10"))
		if !with {
			yaml, _, _ = strings.Cut(yaml, "  candidate:")
		}
		b.Run(fmt.Sprintf("candidate=%t", with), func(b *testing.B) {
			limiter := newBench(b, yaml, headgate.Options{}).limiter
			requests, responses := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{on("user:a")}}}, make([]headgate.Response, 1)
			b.ReportAllocs()
			for b.Loop() {
				if err := limiter.Check(b.Context(), requests, responses); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
