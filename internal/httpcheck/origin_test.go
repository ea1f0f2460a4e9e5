package httpcheck_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpcheck"
	"github.com/headgate/headgate/rules/rulefile"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// origins is an Observer that writes down who sent the requests.
type origins []string

func (o *origins) Decided(req *headgate.Request, _ *headgate.Response, _ time.Duration) {
	*o = append(*o, fmt.Sprint(req.Origin.ClientIP, " ", req.Origin.UserAgent, " ", req.Origin.Trace.Traceparent()))
}

func observed(t *testing.T) (http.Handler, *origins) {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{{Name: "api.yaml", Data: []byte(ruleFile)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := new(origins)
	limiter, err := headgate.New(headgate.Options{Store: memory(t), Rules: set, Observer: seen})
	if err != nil {
		t.Fatal(err)
	}
	h, err := httpcheck.NewHandler(httpcheck.Options{Checker: limiter})
	if err != nil {
		t.Fatal(err)
	}
	return h, seen
}

// An observer hears of the client that the body names and of the trace of the call, for
// each check of a batch, and nothing of the call before.
func TestObserversHearOfTheClient(t *testing.T) {
	const check = `"domain":"api","descriptors":[{"entries":[{"key":"user","value":"42"}],"hits":0}]`
	const one = `{"client_ip":"203.0.113.9","user_agent":"curl/8",` + check + `}`
	h, seen := observed(t)
	for _, step := range []struct {
		path, body string
		trace      []string
		want       string
	}{
		{"/v1/check", one, []string{traceparent}, "[203.0.113.9 curl/8 " + traceparent + "]"},
		{"/v1/check", `{"checks":[` + one + `,{` + check + `}]}`, []string{traceparent}, "[203.0.113.9 curl/8 " + traceparent + " invalid IP  " + traceparent + "]"},
		{"/v1/reserve", one, []string{traceparent}, "[203.0.113.9 curl/8 " + traceparent + "]"},
		{"/v1/check", `{` + check + `}`, nil, "[invalid IP  ]"},
		{"/v1/check", `{` + check + `}`, []string{traceparent, traceparent}, "[invalid IP  ]"},
		{"/v1/check", `{` + check + `}`, []string{traceparent[:54]}, "[invalid IP  ]"},
		{"/v1/check", `{` + check + `}`, []string{strings.Repeat("0", 1<<20)}, "[invalid IP  ]"},
	} {
		*seen = nil
		r := httptest.NewRequest(http.MethodPost, step.path, strings.NewReader(step.body))
		r.Header["Traceparent"] = step.trace
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := fmt.Sprint(*seen); w.Code != http.StatusOK || got != step.want {
			t.Errorf("%s %.200s: %d, heard %s\nwant %s", step.path, step.body, w.Code, got, step.want)
		}
	}
}
