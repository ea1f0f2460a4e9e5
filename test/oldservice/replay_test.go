package oldservice

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/memstore"
)

// Headgate answers what the old service has answered.
//
//promise:envoy-drop-in
func TestRecordedAnswers(t *testing.T) {
	for _, s := range scenarios(t) {
		t.Run(s.name(), func(t *testing.T) {
			if len(s.answers) != len(s.steps) {
				t.Fatalf("%d answers to %d requests; record them", len(s.answers), len(s.steps))
			}
			s.replay(t, s.answers)
		})
	}
}

func (s *scenario) name() string {
	return strings.TrimSuffix(strings.TrimPrefix(s.path, "testdata/"), ".txtar")
}

// replay asks Headgate what the old service was asked, at the seconds in which it answered.
func (s *scenario) replay(t *testing.T, answers []recorded) {
	var now time.Time
	h := headgateAt(t, s.rules, &now)
	for i, want := range answers {
		now = time.Unix(want.At, 0)
		step := &s.steps[i]
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(step.request)))
		diff := difference(t, want, w)
		switch {
		case step.differs == "" && diff != "":
			t.Errorf("request %d, %s: (-old service +headgate)\n%s", i+1, step.request, diff)
		case step.differs != "" && diff == "":
			t.Errorf("request %d, %s: both answer alike, though %s", i+1, step.request, step.differs)
		}
	}
}

// difference says how the answer of Headgate differs from that of the old service, "" if it
// does not.
func difference(t *testing.T, want recorded, got *httptest.ResponseRecorder) string {
	t.Helper()
	if got.Code != want.Status {
		return fmt.Sprintf("status %d, want %d: %s", got.Code, want.Status, got.Body)
	}
	if want.Status != http.StatusOK && want.Status != http.StatusTooManyRequests {
		return "" // the text of an error is our own
	}
	return cmp.Diff(parse(t, want.Answer), ours(parse(t, got.Body.Bytes())), protocmp.Transform())
}

// headgateAt is Headgate as it answers with --compat envoy and --rls-headers envoy, whose
// time is now.
func headgateAt(t *testing.T, text string, now *time.Time) http.Handler {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{{Name: "rules.yaml", Data: []byte(text)}}, rulefile.Options{Compat: true})
	if err != nil {
		t.Fatal(err)
	}
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(*now) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { buckets.Close() })
	clock := func() time.Time { return *now }
	l, err := headgate.New(headgate.Options{Store: buckets, Rules: set, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	return rls.NewJSONHandler(rls.Options{Checker: l, Compat: true, Headers: rls.HeaderNames{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}, Now: clock, Jitter: httpanswer.Jitter{}}, nil)
}

func parse(t *testing.T, text []byte) *rlsv3.RateLimitResponse {
	t.Helper()
	resp := new(rlsv3.RateLimitResponse)
	if err := protojson.Unmarshal(text, resp); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return resp
}

// ours is an answer of Headgate without what it tells beside: a denial says when to come
// back.
func ours(resp *rlsv3.RateLimitResponse) *rlsv3.RateLimitResponse {
	var kept []*corev3.HeaderValue
	for _, h := range resp.ResponseHeadersToAdd {
		if h.Key != "retry-after" {
			kept = append(kept, h)
		}
	}
	resp.ResponseHeadersToAdd = kept
	return resp
}
