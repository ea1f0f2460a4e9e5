package adminapi

import (
	"net"
	"net/http"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/memstore"
)

const (
	// callsPerSecond is how often one token may ask.
	callsPerSecond = 100
	// failuresPerSecond is how often one address may ask with a bad token.
	failuresPerSecond = 10
	// guardBytes bounds the memory of the counters.
	guardBytes = 4 << 20
)

// guard limits those who ask.
type guard struct {
	limiter         *headgate.Limiter
	encoder         *httpanswer.Encoder
	calls, failures *limit.Limit
	now             func() time.Time
}

func newGuard(now func() time.Time) (*guard, error) {
	store, err := memstore.New(memstore.Options{MaxBytes: guardBytes, Now: func() limit.Micros { return limit.MicrosOf(now()) }})
	if err != nil {
		return nil, err
	}
	limiter, err := headgate.New(headgate.Options{Store: store, Now: now})
	if err != nil {
		return nil, err
	}
	encoder, err := httpanswer.New(httpanswer.Options{Body: httpanswer.Problem})
	if err != nil {
		return nil, err
	}
	return &guard{limiter, encoder, limit.Must(limit.PerSecond(callsPerSecond)), limit.Must(limit.PerSecond(failuresPerSecond)), now}, nil
}

// admit charges a call of an actor. It reports false when it has answered.
func (g *guard) admit(w http.ResponseWriter, r *http.Request, actor string) bool {
	return g.take(w, r, descriptor.Entry{Key: "admin_token", Value: actor}, g.calls)
}

// admitFailure charges a call with a bad token to the address that it came from. It
// reports false when it has answered.
func (g *guard) admitFailure(w http.ResponseWriter, r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = "local" // a unix socket
	}
	return g.take(w, r, descriptor.Entry{Key: "remote_address", Value: host}, g.failures)
}

func (g *guard) take(w http.ResponseWriter, r *http.Request, entry descriptor.Entry, l *limit.Limit) bool {
	requests := []headgate.Request{{
		Domain:      headgate.CallerDomain,
		Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{entry}, Hits: 1, Limit: l}},
	}}
	responses := make([]headgate.Response, 1)
	if err := g.limiter.Check(r.Context(), requests, responses); err != nil {
		return true // the caller is gone; a store in memory does not fail
	}
	resp := &responses[0]
	s := g.encoder.Summarize(resp)
	httpanswer.SetHeader(w.Header(), g.encoder.AppendFields(nil, resp, &s, g.now()))
	if resp.Allowed {
		return true
	}
	w.Header().Set("Content-Type", g.encoder.ContentType(&s))
	w.WriteHeader(s.Status)
	_, _ = w.Write(append(g.encoder.AppendBody(nil, nil, resp, &s), '\n')) // nobody is there to hear of an error
	return false
}
