package httplimit_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/trace"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// watcher is an Observer that writes down who sent the last request, and gives every
// decision an ID.
type watcher struct {
	origin string
	id     trace.DecisionID
}

func (w *watcher) Decided(req *headgate.Request, resp *headgate.Response, _ time.Duration) {
	o := &req.Origin
	w.origin, resp.ID = fmt.Sprintf("%v %.20q %s", o.ClientIP, o.UserAgent, o.Trace.Traceparent()), w.id
}

// watched limits to 2 per minute.
func watched(t *testing.T, w *watcher, o httplimit.Options) http.Handler {
	t.Helper()
	buckets, err := memstore.New(memstore.Options{MaxBytes: 1 << 20, Now: func() limit.Micros { return limit.MicrosOf(exampleNow) }})
	if err != nil {
		t.Fatal(err)
	}
	l, err := headgate.New(headgate.Options{Store: buckets, Observer: w})
	if err != nil {
		t.Fatal(err)
	}
	o.Limits = []rules.NamedLimit{{Limit: limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 2, Period: time.Minute})}}
	return newMiddleware(t, l, o).Wrap(status(http.StatusNoContent))
}

// Observers hear of the client as it is identified, also where nothing is limited by its
// address; else of the peer.
func TestObserversHearOfTheClient(t *testing.T) {
	byKey := func(r *http.Request, s *httplimit.Subject) error { return httplimit.RemoteAddress(r, s) }
	behind := httplimit.Identity(newExtractor(t, identity.Anonymous))
	for name, c := range map[string]struct {
		identify httplimit.Identify
		peer     string
		header   []string
		want     string
	}{
		"peer":             {byKey, "203.0.113.9:1", []string{"User-Agent", "curl/8", "Traceparent", traceparent}, `203.0.113.9 "curl/8" ` + traceparent},
		"peer of IPv6":     {byKey, "[2001:db8::9%eth0]:1", nil, `2001:db8::9 "" `},
		"IPv4 in IPv6":     {byKey, "[::ffff:203.0.113.9]:1", nil, `203.0.113.9 "" `},
		"behind a proxy":   {behind, "10.0.0.1:1", []string{"X-Forwarded-For", "203.0.113.9"}, `203.0.113.9 "" `},
		"limited by a key": {behind, "10.0.0.1:1", []string{"X-Forwarded-For", "203.0.113.9", "X-Api-Key", "k-1"}, `203.0.113.9 "" `},
		"a huge field":     {byKey, "203.0.113.9:1", []string{"User-Agent", strings.Repeat("a", 1<<20)}, `203.0.113.9 "aaaaaaaaaaaaaaaaaaaa" `},
		"two traces":       {byKey, "203.0.113.9:1", []string{"Traceparent", traceparent, "Traceparent", traceparent}, `203.0.113.9 "" `},
		"no trace":         {byKey, "203.0.113.9:1", []string{"Traceparent", "00-" + strings.Repeat("0", 32) + traceparent[35:]}, `203.0.113.9 "" `},
	} {
		w := new(watcher)
		r := newRequest("GET", "/", c.header...)
		r.RemoteAddr = c.peer
		ask(watched(t, w, httplimit.Options{Identify: c.identify}), r)
		if w.origin != c.want {
			t.Errorf("%s: %s, want %s", name, w.origin, c.want)
		}
	}
}

// TestNothingIsKeptOfTheLastRequest in pooled memory.
func TestNothingIsKeptOfTheLastRequest(t *testing.T) {
	w := new(watcher)
	h := watched(t, w, httplimit.Options{})
	ask(h, newRequest("GET", "/", "User-Agent", "curl/8", "Traceparent", traceparent))
	ask(h, newRequest("GET", "/"))
	if w.origin != `192.0.2.1 "" ` {
		t.Error(w.origin)
	}
}

// TestDecisionID: answers name the decision, scripts may read its name, and clients
// cannot tell the handler another one in its place.
func TestDecisionID(t *testing.T) {
	id := trace.NewDecisionID(exampleNow)
	w := &watcher{id: id}
	h := watched(t, w, httplimit.Options{ExposeHeaders: true, Answer: httplimit.Answer{Generation: httplimit.Draft6, DecisionID: "x-decision-id"}})
	for _, want := range []int{204, 204, 429} {
		r := ask(h, newRequest("GET", "/", "Origin", "https://shop.example"))
		exposed := r.Header.Get("Access-Control-Expose-Headers")
		if r.StatusCode != want || r.Header.Get("X-Decision-Id") != id.String() || !strings.Contains(exposed, "x-decision-id") {
			t.Errorf("%d, want %d: %v", r.StatusCode, want, r.Header)
		}
		// No answer has more fields than the denial: those of Draft6 and X-RateLimit-* are 7 of them.
		if len(r.Header) != map[int]int{204: 9, 429: 12}[want] {
			t.Errorf("%d has %d fields: %v", r.StatusCode, len(r.Header), r.Header)
		}
	}
	w.id = trace.DecisionID{}
	if r := ask(h, newRequest("GET", "/")); len(r.Header["X-Decision-Id"]) > 0 {
		t.Errorf("a decision that nobody recorded has the ID %s", r.Header.Get("X-Decision-Id"))
	}
	if _, err := httplimit.New(failing{}, httplimit.Options{Domain: "api", Answer: httplimit.Answer{DecisionID: "Retry-After"}}); err == nil {
		t.Error("decisions are named by Retry-After")
	}
}
