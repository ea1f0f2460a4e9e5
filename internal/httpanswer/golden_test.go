package httpanswer

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/trace"
	"github.com/headgate/headgate/verdict"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The two limits of the worked examples, in one request.
var (
	perMinute = limit.Must(limit.PerMinute(100))
	writes    = limit.Must(limit.PerMinute(20))
)

// exampleNow makes the reset of the worked examples: 1706000060 is 42 s later.
var exampleNow = time.Unix(1706000018, 0)

func counted(l *limit.Limit, name string, d limit.Decision) headgate.Verdict {
	return headgate.Verdict{Limit: l, Name: name, Hits: 1, Decision: d}
}

func exampleAllowed() headgate.Response {
	return headgate.Response{Allowed: true, DomainKnown: true, Verdicts: []headgate.Verdict{
		counted(perMinute, "default", limit.Decision{Allowed: true, Limit: 100, Remaining: 73, ResetAfter: 42 * time.Second}),
		counted(writes, "writes", limit.Decision{Allowed: true, Limit: 20, Remaining: 17, ResetAfter: 42 * time.Second}),
	}}
}

func exampleDenied() headgate.Response {
	return headgate.Response{DomainKnown: true, Verdicts: []headgate.Verdict{
		counted(perMinute, "default", limit.Decision{Allowed: true, Limit: 100, Remaining: 73, ResetAfter: 42 * time.Second}),
		counted(writes, "writes", limit.Decision{Limit: 20, ResetAfter: 55 * time.Second, RetryAfter: 41*time.Second + 1}),
	}}
}

func exampleNever() headgate.Response {
	r := exampleDenied()
	r.Verdicts[1].Decision = limit.Decision{Never: true, Limit: 20, Remaining: 20}
	return r
}

func exampleDegraded(allowed bool) headgate.Response {
	v := headgate.Verdict{
		Rule:  &rules.Rule{ID: "edge.login", Limits: make([]rules.NamedLimit, 1)},
		Limit: writes, Hits: 1, By: verdict.ByFailureMode, Degraded: store.Timeout,
		Decision: limit.Decision{Allowed: allowed, Limit: 20},
	}
	if !allowed {
		v.Decision.RetryAfter = time.Second
	}
	return headgate.Response{Allowed: allowed, DomainKnown: true, Verdicts: []headgate.Verdict{v}}
}

// recorded is resp as an observer leaves it that has recorded it.
func recorded(resp headgate.Response) headgate.Response {
	resp.ID, _ = trace.ParseDecisionID("018f1ad9-4e7b-7a3c-9b1e-0123456789ab")
	return resp
}

var exampleRequest = headgate.Request{
	Domain: "edge",
	Descriptors: []headgate.Descriptor{{
		Entries: []descriptor.Entry{{Key: "api_key", Value: "abc123"}}, Hits: 1,
	}},
}

// TestTranscripts compares whole answers with testdata; run it with -update to
// rewrite them after a look at the difference.
func TestTranscripts(t *testing.T) {
	draft6, draft7, named := Options{Generation: Draft6}, Options{Generation: Draft7}, Options{DecisionID: "X-Decision-Id"}
	cases := []struct {
		name    string
		options Options
		resp    headgate.Response
	}{
		{"allowed", Options{}, exampleAllowed()},
		{"allowed-draft-6", draft6, exampleAllowed()},
		{"allowed-draft-7", draft7, exampleAllowed()},
		{"allowed-off", Options{Generation: NoDraft}, exampleAllowed()},
		{"allowed-delta-reset", Options{Reset: DeltaSeconds}, exampleAllowed()},
		{"allowed-without-x", Options{OmitX: true}, exampleAllowed()},
		{"denied-platform", Options{}, exampleDenied()},
		{"denied-flat", Options{Body: Flat}, exampleDenied()},
		{"denied-problem", Options{Body: Problem}, exampleDenied()},
		{"denied-draft-6", draft6, exampleDenied()},
		{"denied-draft-7", draft7, exampleDenied()},
		{"denied-jitter", Options{Jitter: Jitter{0.5, func() float64 { return 0.5 }}}, exampleDenied()},
		{"never-platform", Options{}, exampleNever()},
		{"never-problem", Options{Body: Problem}, exampleNever()},
		{"degraded-open", Options{}, exampleDegraded(true)},
		{"degraded-closed-platform", Options{}, exampleDegraded(false)},
		{"degraded-closed-flat", Options{Body: Flat}, exampleDegraded(false)},
		{"degraded-closed-problem", Options{Body: Problem}, exampleDegraded(false)},
		{"nothing-limits", Options{}, headgate.Response{Allowed: true}},
		{"allowed-recorded", named, recorded(exampleAllowed())},
		{"denied-recorded", named, recorded(exampleDenied())},
		{"degraded-closed-recorded", named, recorded(exampleDegraded(false))},
		{"nothing-limits-recorded", named, recorded(headgate.Response{Allowed: true})},
		{"denied-draft-6-recorded", Options{Generation: Draft6, DecisionID: "x-decision"}, recorded(exampleDenied())},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join("testdata", c.name+".txt")
			got := transcript(t, c.options, &c.resp)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("answer differs (-want +got):\n%s", d)
			}
		})
	}
}

// transcript writes an answer as it stands on the wire.
func transcript(t *testing.T, o Options, resp *headgate.Response) string {
	t.Helper()
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := e.Summarize(resp)
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", s.Status)
	for _, f := range e.AppendFields(nil, nil, resp, &s, exampleNow) {
		fmt.Fprintf(&b, "%s: %s\n", f.Name, f.Value)
	}
	if !resp.Allowed {
		fmt.Fprintf(&b, "Content-Type: %s\n\n%s\n", e.ContentType(&s), e.AppendBody(nil, &exampleRequest, resp, &s))
	}
	return b.String()
}
