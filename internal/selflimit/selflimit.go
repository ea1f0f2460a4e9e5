// Package selflimit limits those who ask Headgate's own HTTP APIs too often: by
// Headgate itself, in memory, apart from all that it limits for others.
package selflimit

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

// maxBytes bounds the memory of the counters.
const maxBytes = 4 << 20

// Guard limits those who ask. It is safe for concurrent use.
type Guard struct {
	limiter *headgate.Limiter
	encoder *httpanswer.Encoder
	now     func() time.Time
}

// New returns a Guard by the clock now.
func New(now func() time.Time) (*Guard, error) {
	store, err := memstore.New(memstore.Options{MaxBytes: maxBytes, Now: func() limit.Micros { return limit.MicrosOf(now()) }})
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
	return &Guard{limiter, encoder, now}, nil
}

// Admit charges a request to who sent it. It sets the header fields that say how much
// is left, and reports false when it has answered because nothing is.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request, who descriptor.Entry, l *limit.Limit) bool {
	requests := []headgate.Request{{
		Domain:      headgate.CallerDomain,
		Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{who}, Hits: 1, Limit: l}},
	}}
	responses := make([]headgate.Response, 1)
	if err := g.limiter.Check(r.Context(), requests, responses); err != nil {
		return true // the caller is gone; a store in memory does not fail
	}
	resp := &responses[0]
	s := g.encoder.Summarize(resp)
	httpanswer.SetHeader(w.Header(), g.encoder.AppendFields(nil, &requests[0], resp, &s, g.now()))
	if resp.Allowed {
		return true
	}
	w.Header().Set("Content-Type", g.encoder.ContentType(&s))
	w.WriteHeader(s.Status)
	_, _ = w.Write(append(g.encoder.AppendBody(nil, nil, resp, &s), '\n')) // nobody is there to hear of an error
	return false
}

// AdmitPeer is Admit for the address that a request came from.
func (g *Guard) AdmitPeer(w http.ResponseWriter, r *http.Request, l *limit.Limit) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = "local" // a unix socket
	}
	return g.Admit(w, r, descriptor.Entry{Key: "remote_address", Value: host}, l)
}
