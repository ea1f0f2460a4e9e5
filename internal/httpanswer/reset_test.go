package httpanswer

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// What a sliding window tells of reset, as if unused and as its window ends, and that a
// denial tells when to try again whatever is chosen.
func TestWindowReset(t *testing.T) {
	minute := limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 20, Period: time.Minute})
	resp := &headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{{
		Rule: &rules.Rule{ID: "r"}, Limit: minute,
		Decision: limit.Decision{Allowed: true, Limit: 20, Remaining: 5, ResetAfter: 107 * time.Second},
	}}}
	told := func(window bool) (t8, t6, x string, s Summary) {
		e := encoder(t, Options{WindowReset: window, Reset: DeltaSeconds})
		s = e.Summarize(resp)
		old := encoder(t, Options{WindowReset: window, Generation: Draft6})
		for _, f := range append(e.AppendFields(nil, nil, resp, &s, exampleNow), old.AppendFields(nil, nil, resp, &s, exampleNow)...) {
			switch f.Name {
			case rateLimitField:
				t8 = f.Value
			case resetField:
				t6 = f.Value
			case xResetField:
				if x == "" {
					x = f.Value
				}
			}
		}
		return t8, t6, x, s
	}
	t8, t6, x, s := told(false)
	if t8 != `"r";r=5;t=107` || t6 != "107" || x != "107" || s.Reset() != 107*time.Second || s.WindowEndsAfter != 47*time.Second {
		t.Errorf("full: %s, %s, %s, %v, %v", t8, t6, x, s.Reset(), s.WindowEndsAfter)
	}
	t8, t6, x, s = told(true)
	if t8 != `"r";r=5;t=47` || t6 != "47" || x != "47" || s.Reset() != 47*time.Second {
		t.Errorf("window: %s, %s, %s, %v", t8, t6, x, s.Reset())
	}
	resp.Allowed, resp.Verdicts[0].Decision.Allowed, resp.Verdicts[0].Decision.RetryAfter = false, false, 50*time.Second
	if t8, t6, x, _ = told(true); t8 != `"r";r=5;t=50` || t6 != "50" || x != "50" {
		t.Errorf("denied: %s, %s, %s", t8, t6, x)
	}
}

// Draft6Window tells the window beside the limit where there is one.
func TestDraft6Window(t *testing.T) {
	for _, test := range []struct {
		period time.Duration
		want   string
	}{{time.Minute, "20;window=60"}, {time.Millisecond, "20"}} {
		l := limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 20, Period: test.period})
		resp := &headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{{
			Rule: &rules.Rule{ID: "r"}, Limit: l, Decision: limit.Decision{Allowed: true, Limit: 20, Remaining: 5, ResetAfter: test.period},
		}}}
		e := encoder(t, Options{Generation: Draft6Window, OmitX: true})
		s := e.Summarize(resp)
		got := map[string]string{}
		for _, f := range e.AppendFields(nil, nil, resp, &s, exampleNow) {
			got[f.Name] = f.Value
		}
		if got[limitField] != test.want || got[remainingField] != "5" || got[resetField] == "" {
			t.Errorf("%v: %v", test.period, got)
		}
	}
}

// No crowd is spread over more than a minute, and nobody is told less than the truth.
func TestJitterIsBounded(t *testing.T) {
	all := Jitter{Share: 1, Random: func() float64 { return 0.999999 }}
	for _, test := range []struct {
		d, want time.Duration
		seconds int64
	}{
		{0, 0, 0}, {time.Second, 1999999 * time.Microsecond, 1}, {1500 * time.Millisecond, 2999998500, 3},
		{10 * time.Second, 19_999_990 * time.Microsecond, 19},
		{24 * time.Hour, 24*time.Hour + time.Minute, 24*3600 + 60}, {1<<63 - 1, 1<<63 - 1, 9223372036},
	} {
		if got, seconds := all.Lengthen(test.d); got != test.want || seconds != test.seconds {
			t.Errorf("%v becomes %v and %d s, want %v and %d", test.d, got, seconds, test.want, test.seconds)
		}
	}
}
