package forwardauth

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/problems"
)

// ServeHTTP implements http.Handler: it answers the sub-requests of gateways.
func (a *Authorizer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := a.admit(r); err != nil {
		status := callers.Answer(w.Header(), err)
		w.Header().Set("Connection", "close") // strangers hold none
		fault(w, status, err.Error())
		return
	}
	t := parseTarget(r.RequestURI)
	if t.profile == nil {
		fault(w, http.StatusNotFound, fmt.Sprintf("no such profile; hint: %sPROFILE or %sPROFILE@DOMAIN, where PROFILE is one of %s", Prefix, Prefix, profileNames()))
		return
	}
	ctx := r.Context()
	if !a.options.Peers.within(r.RemoteAddr) {
		ctx = context.WithValue(ctx, vouchedKey{}, true)
	}
	original, err := t.original(ctx, r)
	if err != nil {
		t.profile.answer(w, r, a.Refuse(err))
		return
	}
	t.profile.answer(w, r, a.Decide(original, t.domain))
}

// vouchedKey is the key of a context for a request of which a gateway tells that is known by
// another thing than its address: a credential, or the socket by which it asks.
type vouchedKey struct{}

// Vouched reports whether r is the request of a client of which such a gateway tells, so that
// what the gateway says of the client's address is believed, whatever its own is.
func Vouched(r *http.Request) bool { return r.Context().Value(vouchedKey{}) != nil }

// admit returns an error for who sent r and may not ask.
func (a *Authorizer) admit(r *http.Request) error {
	if a.options.Enter == nil {
		return a.Admit(r.RemoteAddr, nil)
	}
	return a.Admit(r.RemoteAddr, func() error { return a.options.Enter(r) })
}

// fault answers a request that no profile can answer.
func fault(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Cache-Control", "no-store")
	problems.Answer(w, status, message)
}

// answer writes reply as the gateway of p wants it.
func (p *profile) answer(w http.ResponseWriter, r *http.Request, reply Reply) {
	h := w.Header()
	httpanswer.SetHeader(h, reply.Fields)
	httpanswer.SetHeader(h, reply.Upstream)
	status := reply.Status
	if p.removes != "" && len(reply.Removed) > 0 {
		h[p.removes] = []string{strings.Join(reply.Removed, ", ")}
	}
	if p.tells && status != http.StatusOK {
		h[statusField] = []string{strconv.Itoa(status)}
	}
	if p.forbids && status != http.StatusOK {
		status = http.StatusForbidden
	}
	if p.bodiless || len(reply.Body) == 0 {
		h.Set("Content-Length", "0")
		w.WriteHeader(status)
		return
	}
	h.Set("Content-Type", reply.Media)
	h.Set("Content-Length", strconv.Itoa(len(reply.Body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(reply.Body) // the gateway may be gone: that is nobody's error
	}
}
