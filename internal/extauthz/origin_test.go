package extauthz_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/extauthz"
	"github.com/headgate/headgate/internal/forwardauth"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/trace"
)

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

// watched returns an authorizer that lets an address log in once.
func watched(t *testing.T, w *watcher) extauthz.Authorizer {
	t.Helper()
	set := testrules.Load(t, "domain: edge\ndescriptors: [{key: remote_address, rate_limit: {unit: hour, requests_per_unit: 1}}]\n")
	buckets, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set, Observer: w})
	if err != nil {
		t.Fatal(err)
	}
	clients, err := identity.NewClientIP(identity.ClientIPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	extractor, err := identity.NewExtractor(identity.Options{ClientIP: clients, Descriptors: []identity.Descriptor{
		{Entries: []identity.Preference{identity.FirstOf(identity.Source{Kind: identity.KindAddress})}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := httpanswer.New(httpanswer.Options{Generation: httpanswer.NoDraft, OmitX: true, DecisionID: "X-Decision-Id"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := forwardauth.New(forwardauth.Options{
		Checker: limiter, Extractor: extractor, Answer: answer, Rules: func() *rules.Set { return set },
		Peers: forwardauth.NewPeers([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return peered{a}
}

// peered takes every caller for a peer.
type peered struct{ *forwardauth.Authorizer }

func (peered) Admit(string, func() error) error { return nil }

// Observers hear of Envoy's client, and that hears the ID of its decision.
func TestClientsAndDecisions(t *testing.T) {
	const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w := &watcher{id: trace.NewDecisionID(time.Now())}
	s := extauthz.New(watched(t, w), extauthz.Options{OnPanic: func(cause any, _ []byte) { panic(cause) }})
	for _, step := range []struct {
		sent, want string
		allowed    bool
	}{
		{traceparent, `203.0.113.9 "curl/8" ` + traceparent, true},
		{traceparent + "," + traceparent, `203.0.113.9 "curl/8" `, false}, // two, as Envoy joins them
	} {
		q := question()
		headers := q.Attributes.Request.Http.Headers
		headers["user-agent"], headers["traceparent"] = "curl/8", step.sent
		resp, err := s.Check(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		told := list(resp.GetOkResponse().GetResponseHeadersToAdd()) + list(resp.GetDeniedResponse().GetHeaders())
		if w.origin != step.want || (resp.GetOkResponse() != nil) != step.allowed || !strings.Contains(told, "X-Decision-Id: "+w.id.String()+" (OVERWRITE_IF_EXISTS_OR_ADD)") {
			t.Errorf("%s\nobservers heard %s\nthe client hears %s", step.sent, w.origin, told)
		}
	}
}
