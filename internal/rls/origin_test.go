package rls

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/trace"
)

const exampleTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// traces is a Checker that writes down of which traces requests are part.
type traces chan string

func (c traces) Check(_ context.Context, requests []headgate.Request, responses []headgate.Response) error {
	o := &requests[0].Origin
	c <- fmt.Sprintf("%s%s", o.Trace.Traceparent(), o.UserAgent)
	responses[0].Allowed = true
	return nil
}

// Observers hear of the trace of a call, over gRPC and over HTTP, and not of the proxy
// that makes it.
func TestObserversHearOfTheTrace(t *testing.T) { overEach(t, testObserversHearOfTheTrace) }

func testObserversHearOfTheTrace(t *testing.T, own bool) {
	told := make(traces, 1)
	client := rlsv3.NewRateLimitServiceClient(serve(t, Options{Own: own, Checker: told}))
	json := NewJSONHandler(Options{Checker: told}, nil)
	for _, test := range []struct {
		sent []string
		want string
	}{
		{[]string{exampleTrace}, exampleTrace},
		{nil, ""},
		{[]string{exampleTrace, exampleTrace}, ""},
		{[]string{exampleTrace + "0"}, ""},
		{[]string{strings.Repeat("0", 4096)}, ""},
	} {
		md := metadata.MD{"traceparent": test.sent}
		if _, err := client.ShouldRateLimit(metadata.NewOutgoingContext(t.Context(), md), benchRequest()); err != nil {
			t.Fatal(err)
		}
		if got := <-told; got != test.want {
			t.Errorf("%.100q over gRPC: heard of %q", test.sent, got)
		}
		r := httptest.NewRequest("POST", "/json", strings.NewReader(`{"domain":"edge","descriptors":[{"entries":[{"key":"a"}]}]}`))
		r.Header["Traceparent"] = test.sent
		json.ServeHTTP(httptest.NewRecorder(), r)
		if got := <-told; got != test.want {
			t.Errorf("%.100q over HTTP: heard of %q", test.sent, got)
		}
	}
}

// Whether a call is part of a trace costs no memory.
func TestTraceAllocatesNothing(t *testing.T) {
	c := new(call)
	for _, md := range []metadata.MD{
		{":authority": {"ratelimit"}, "user-agent": {"envoy"}},
		{":authority": {"ratelimit"}, "traceparent": {exampleTrace}},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), md)
		c.from = Caller{ctx: ctx}
		if got := alloctest.PerRun(200, func() { c.setOrigin() }); got != 0 {
			t.Errorf("%v: %v allocations", md, got)
		}
	}
}

// The proxy is asked to tell its client of the decision, whatever it is.
func TestDecisionID(t *testing.T) {
	id, _ := trace.ParseDecisionID("018f1ad9-4e7b-7a3c-9b1e-0123456789ab")
	answer, err := httpanswer.New(httpanswer.Options{OmitX: true, DecisionID: "X-Decision-Id"})
	if err != nil {
		t.Fatal(err)
	}
	for _, verdict := range []headgate.Verdict{allowedVerdict(), denied()} {
		recording := script(func(ctx context.Context, req *headgate.Request, resp *headgate.Response) error {
			resp.ID = id
			resp.Allowed, resp.Verdicts = verdict.Decision.Allowed, append(resp.Verdicts[:0], verdict)
			return nil
		})
		for _, o := range []Options{{Answer: answer}, {Headers: envoyHeaders}} {
			o.Checker = recording
			want := ""
			if o.Answer != nil {
				want = id.String()
			}
			got, err := ask(t, newService(o), benchRequest())
			if err != nil || headersOf(got)["x-decision-id"] != want {
				t.Errorf("allowed %v: %v, error %v; want %q", verdict.Decision.Allowed, headersOf(got), err, want)
			}
		}
	}
}
