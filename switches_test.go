package headgate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/verdict"
)

const switchable = `
match: path
domain: d
descriptors:
  - key: api_key
    rate_limit: {unit: minute, requests_per_unit: 10}
    descriptors:
      - key: op
        value: write
        rate_limit: {unit: minute, requests_per_unit: 2}
  - key: path
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: job
    concurrency: 1
`

// switched returns a bench with switches as their JSON says.
func switched(t *testing.T, b *bench, texts ...string) {
	t.Helper()
	var list []switches.Switch
	for _, text := range texts {
		one, err := switches.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, one)
	}
	set, err := switches.NewSet(list)
	if err != nil {
		t.Fatal(err)
	}
	b.limiter.SetSwitches(set)
}

// passed returns how many of n requests pass.
func (b *bench) passed(n int, text string) (passed int) {
	b.t.Helper()
	for range n {
		if b.check(on(text)).Allowed {
			passed++
		}
	}
	return passed
}

//promise:safe-changes
func TestB6Switches(t *testing.T) {
	const write = "api_key:a,op:write"
	for name, c := range map[string]struct {
		switches []string
		text     string
		passed   int
		verdicts int
	}{
		"as the rules say":                 {nil, write, 2, 2},
		"a rule off":                       {[]string{`{"target":"rule:d.api_key.op_write","state":"off"}`}, write, 10, 1},
		"an outer rule off":                {[]string{`{"target":"rule:d.api_key","state":"off"}`}, write, 2, 1},
		"a rule in shadow":                 {[]string{`{"target":"rule:d.api_key.op_write","state":"shadow"}`}, write, 10, 2},
		"all off":                          {[]string{`{"target":"all","state":"off"}`}, write, 20, 0},
		"all in shadow":                    {[]string{`{"target":"all","state":"shadow"}`}, write, 20, 2},
		"all off but one rule":             {[]string{`{"target":"all","state":"off"}`, `{"target":"rule:d.api_key","state":"on"}`}, write, 10, 1},
		"a shadow rule on":                 {[]string{`{"target":"rule:d.path","state":"on"}`}, "path:/x", 1, 1},
		"a shadow rule":                    {nil, "path:/x", 20, 1},
		"a tenant off":                     {[]string{`{"target":"tenant:api_key:a","state":"off"}`}, write, 20, 0},
		"another tenant off":               {[]string{`{"target":"tenant:api_key:b","state":"off"}`}, write, 2, 2},
		"a tenant on, all off":             {[]string{`{"target":"tenant:api_key:a","state":"on"}`, `{"target":"all","state":"off"}`}, write, 2, 2},
		"ended":                            {[]string{`{"target":"all","state":"off","until":"2000-01-01T00:00:00Z"}`}, write, 2, 2},
		"not ended":                        {[]string{`{"target":"all","state":"off","until":"2100-01-01T00:00:00Z"}`}, write, 20, 0},
		"a canary of everybody":            {[]string{`{"target":"all","state":"off","percent":100}`}, write, 20, 0},
		"a canary of a tenant":             {[]string{`{"target":"rule:d.api_key.op_write","state":"off","tenants":["api_key:a"]}`}, write, 10, 1},
		"a canary of another tenant":       {[]string{`{"target":"rule:d.api_key.op_write","state":"off","tenants":["api_key:b"]}`}, write, 2, 2},
		"a rule that there is not, is off": {[]string{`{"target":"rule:d.gone","state":"off"}`}, write, 2, 2},
	} {
		for _, tenants := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/tenants=%v", name, tenants), func(t *testing.T) {
				yaml := switchable
				if tenants {
					yaml = strings.Replace(yaml, "key: api_key", "key: api_key\n    tenant: true", 1)
				}
				b := newBench(t, yaml, headgate.Options{})
				if tenants {
					b.limiter.SetTenants(snapshot(t))
				}
				switched(t, b, c.switches...)
				if got := b.passed(20, c.text); got != c.passed {
					t.Errorf("%d of 20 passed, want %d", got, c.passed)
				}
				if got := len(b.check(on(c.text)).Verdicts); got != c.verdicts {
					t.Errorf("%d verdicts, want %d", got, c.verdicts)
				}
			})
		}
	}
}

// TestB6CanaryShare holds that a canary reaches the share of clients whose share is
// below its percentage, and these whole.
func TestB6CanaryShare(t *testing.T) {
	b := newBench(t, switchable, headgate.Options{})
	switched(t, b, `{"target":"rule:d.api_key","state":"off","percent":30}`)
	for i := range 200 {
		text := fmt.Sprintf("api_key:k%d", i)
		want := 10
		if switches.ShareOf([]descriptor.Entry{{Key: "api_key", Value: fmt.Sprintf("k%d", i)}}) < 30 {
			want = 12
		}
		if got := b.passed(12, text); got != want {
			t.Errorf("%s: %d of 12 passed, want %d", text, got, want)
		}
	}
}

// TestB6SwitchesWinOverNoGlobalShadow holds that a process that was told to enforce
// nothing enforces nothing.
func TestB6SwitchesWinOverNoGlobalShadow(t *testing.T) {
	b := newBench(t, switchable, headgate.Options{Shadow: true})
	switched(t, b, `{"target":"all","state":"on"}`)
	if got := b.passed(20, "api_key:a,op:write"); got != 20 {
		t.Errorf("%d of 20 passed", got)
	}
}

// TestB6WhatCountedCountsAgain holds that a rule which is switched on again goes on
// from what it had counted, and has counted nothing meanwhile.
func TestB6WhatCountedCountsAgain(t *testing.T) {
	b := newBench(t, switchable, headgate.Options{})
	const text = "api_key:a"
	b.passed(4, text)
	switched(t, b, `{"target":"all","state":"off"}`)
	b.passed(50, text)
	switched(t, b)
	if got := b.passed(20, text); got != 6 {
		t.Errorf("%d more passed, want 6", got)
	}
}

// TestB6SlotsOutliveSwitches holds that what is in flight is released though its rule
// is off by then.
func TestB6SlotsOutliveSwitches(t *testing.T) {
	b := newBench(t, switchable, headgate.Options{})
	hold := limit.NewHold()
	if !b.take(hold, "job:x") || b.take(limit.NewHold(), "job:x") {
		t.Fatal("one slot for one")
	}
	switched(t, b, `{"target":"all","state":"off"}`)
	if !b.take(limit.NewHold(), "job:x") {
		t.Error("denied by a rule that is off")
	}
	b.release(hold, "job:x")
	switched(t, b)
	if free := b.free("job:x"); free != 1 {
		t.Errorf("%d slots are free, want 1", free)
	}
}

// TestB6RefundAndResetReachWhatIsOff holds that operators can give back while a rule
// is off.
func TestB6RefundAndResetReachWhatIsOff(t *testing.T) {
	for _, op := range []store.Op{store.Refund, store.Reset} {
		b := newBench(t, switchable, headgate.Options{})
		b.passed(10, "api_key:a")
		switched(t, b, `{"target":"all","state":"off"}`)
		d := on("api_key:a")
		d.Op, d.Hits = op, 10
		b.check(d)
		switched(t, b)
		if got := b.remaining("api_key:a"); got != 10 {
			t.Errorf("op %d: %d remain, want 10", op, got)
		}
	}
}

func TestB6CallerLimitsAreSwitchedWithAll(t *testing.T) {
	b := newBench(t, switchable, headgate.Options{})
	ask := func() *headgate.Response {
		d := on("key:mine")
		d.Limit = limit.Must(limit.PerMinute(1))
		return b.check(d)
	}
	ask()
	if r := ask(); r.Allowed {
		t.Fatal("two of one passed")
	}
	switched(t, b, `{"target":"all","state":"shadow"}`)
	if r := ask(); !r.Allowed || len(r.Verdicts) != 1 || r.Verdicts[0].Effect != verdict.RuleShadow || r.Verdicts[0].Decision.Allowed {
		t.Errorf("in shadow: %+v", r)
	}
	switched(t, b, `{"target":"all","state":"off"}`)
	if r := ask(); !r.Allowed || len(r.Verdicts) != 0 {
		t.Errorf("off: %+v", r)
	}
}

// TestPeek holds that a peek charges nothing, tells no observer, and shows what rules
// that are off have counted.
func TestPeek(t *testing.T) {
	told := 0
	b := newBench(t, switchable, headgate.Options{Observer: observing(func(*headgate.Request, *headgate.Response) { told++ })})
	b.passed(3, "api_key:a")
	before := told
	switched(t, b, `{"target":"all","state":"off"}`)
	responses := make([]headgate.Response, 1)
	for range 100 {
		d := on("api_key:a")
		d.Op, d.Hits = store.Reset, 5
		if err := b.limiter.Peek(t.Context(), []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{d}}}, responses); err != nil {
			t.Fatal(err)
		}
		if got := responses[0].Verdicts[0].Decision.Remaining; got != 7 {
			t.Fatalf("%d remain, want 7", got)
		}
	}
	if told != before {
		t.Errorf("the observer was told of %d peeks", told-before)
	}
	if err := b.limiter.Peek(t.Context(), []headgate.Request{{}}, responses); err == nil {
		t.Error("a request without a domain was taken")
	}
	if err := b.limiter.Peek(t.Context(), nil, responses); err == nil {
		t.Error("a response without a request was taken")
	}
}

// observing is an Observer that is one function.
type observing func(*headgate.Request, *headgate.Response)

func (f observing) Decided(req *headgate.Request, resp *headgate.Response, _ time.Duration) {
	f(req, resp)
}
