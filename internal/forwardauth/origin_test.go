package forwardauth_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/httpanswer"
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
	w.origin, resp.ID = fmt.Sprintf("%v %q %s", o.ClientIP, o.UserAgent, o.Trace.Traceparent()), w.id
}

// Observers hear of the client, whichever gateway asks, and not of the gateway; also
// where its address is no part of what is limited.
func TestObserversHearOfTheClient(t *testing.T) {
	clients, err := identity.NewClientIP(identity.ClientIPOptions{Trusted: peers, Source: identity.ForwardedFor})
	if err != nil {
		t.Fatal(err)
	}
	byMethod, err := identity.NewExtractor(identity.Options{ClientIP: clients, Descriptors: []identity.Descriptor{
		{Entries: []identity.Preference{identity.FirstOf(identity.Source{Kind: identity.KindMethod})}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, extractor := range []*identity.Extractor{newExtractor(t), byMethod} {
		for _, gateway := range []string{"nginx", "traefik", "caddy", "haproxy", "kong", "envoy", "apisix"} {
			w := new(watcher)
			a := setup{observer: w, extractor: extractor}.make(t)
			r := recorded(t, gateway)
			r.Header.Set("User-Agent", "curl/8")
			r.Header.Set("Traceparent", traceparent)
			ask(a, r)
			if want := `203.0.113.9 "curl/8" ` + traceparent; w.origin != want {
				t.Errorf("%s: %s, want %s", gateway, w.origin, want)
			}
			r = recorded(t, gateway)
			r.Header.Del("User-Agent")
			r.Header["Traceparent"] = []string{traceparent, traceparent}
			ask(a, r)
			if want := `203.0.113.9 "" `; w.origin != want {
				t.Errorf("%s: %s, want %s", gateway, w.origin, want)
			}
		}
	}
}

// The client is told the name of its decision, whatever that is; a gateway hears it with
// the other fields.
func TestDecisionID(t *testing.T) {
	w := &watcher{id: trace.NewDecisionID(exampleNow)}
	a := setup{observer: w, answer: httpanswer.Options{DecisionID: "X-Decision-Id"}}.make(t)
	for _, want := range []int{200, 200, 429} {
		answer := ask(a, recorded(t, "traefik"))
		if got := answer.Header().Get("X-Decision-Id"); answer.Code != want || got != w.id.String() {
			t.Errorf("%d, want %d; the decision is %q, want %s", answer.Code, want, got, w.id)
		}
	}
	w.id = trace.DecisionID{}
	if got, named := ask(a, recorded(t, "traefik")).Header()["X-Decision-Id"]; named {
		t.Errorf("a decision that nobody recorded is %q", got)
	}
}
