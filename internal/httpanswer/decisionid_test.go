package httpanswer

import (
	"testing"

	"github.com/headgate/headgate/internal/alloctest"
)

// TestDecisionIDNeedsAName: neither in Options nor in the Response alone is it told.
func TestDecisionIDNeedsAName(t *testing.T) {
	resp := recorded(exampleAllowed())
	if got, want := transcript(t, Options{}, &resp), exampleAllowed(); got != transcript(t, Options{}, &want) {
		t.Errorf("without a name of the field: %s", got)
	}
	resp = exampleAllowed()
	if got := transcript(t, Options{DecisionID: "X-Decision-Id"}, &resp); got != transcript(t, Options{}, &resp) {
		t.Errorf("of a decision that nobody recorded: %s", got)
	}
}

// TestDecisionIDNamesNothingElse: what is no name, and the name of another field, is
// refused before anything is served.
func TestDecisionIDNamesNothingElse(t *testing.T) {
	for _, name := range []string{"two words", "X-Decision-Id:", "X-D\u00e9cision", "a\r\nb", "retry-after", "RATELIMIT", "content-type", "X-RateLimit-Challenge"} {
		if _, err := New(Options{DecisionID: name}); err == nil {
			t.Errorf("%q names decisions", name)
		}
	}
}

// TestDecisionIDAllocates no more than fields do without it.
func TestDecisionIDAllocates(t *testing.T) {
	count := func(o Options) float64 {
		e, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		resp, fields := recorded(exampleAllowed()), make([]Field, 0, maxFields+1)
		return alloctest.PerRun(200, func() {
			s := e.Summarize(&resp)
			fields = e.AppendFields(fields[:0], nil, &resp, &s, exampleNow)
		})
	}
	if off, on := count(Options{}), count(Options{DecisionID: "X-Decision-Id"}); on != off {
		t.Errorf("%v allocations with the field, %v without", on, off)
	}
}
