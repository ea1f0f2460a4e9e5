// Package customer is the HTTP endpoint at which a tenant reads what it has used
// itself, with a token that is good for nothing else (package usagetoken):
//
//	GET /v1/usage
//	Authorization: Bearer hgut_...
//
// It changes nothing and charges nothing. It has a limiter of its own, so that who
// asks here too often is not in the way of decisions.
package customer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/selflimit"
	"github.com/headgate/headgate/internal/tokenfile"
	"github.com/headgate/headgate/internal/usagetoken"
	"github.com/headgate/headgate/internal/usageview"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenantusage"
)

// Path is where a Handler is to be mounted; it answers at no other one.
const Path = "/v1/usage"

const (
	// callsPerSecond is how often one tenant may ask, and failuresPerSecond how often
	// one address with tokens that are not good.
	callsPerSecond, failuresPerSecond = 10, 10
	// timeout bounds how long the stores may take.
	timeout = 5 * time.Second
	// retryAfter is what callers are told to wait while the store does not answer, in
	// seconds.
	retryAfter = "5"

	challenge = `Bearer realm="headgate usage"`
)

// Usage tells what tenants have used.
type Usage interface {
	Usage(ctx context.Context, subjects []tenant.Subject) ([]tenantusage.Tenant, error)
}

var _ Usage = (*tenantusage.Reader)(nil)

// Options configures a Handler.
type Options struct {
	// Keys check tokens. Required.
	Keys *usagetoken.Keys
	// Usage is asked. Required.
	Usage Usage
	// Refusals counts whom the endpoint turns away; nil: they are not counted.
	Refusals *refusals.Log
	// Now is the clock; nil means the wall clock.
	Now func() time.Time
	// OnError, when not nil, is told what callers are not. It holds no token.
	OnError func(error)
}

// Handler serves the endpoint. It is safe for concurrent use. Make one with New.
type Handler struct {
	options         Options
	guard           *selflimit.Guard
	calls, failures *limit.Limit
}

// New returns a Handler.
func New(o Options) (*Handler, error) {
	if o.Keys == nil || o.Usage == nil {
		return nil, errors.New("new usage endpoint: Keys and Usage are required")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	guard, err := selflimit.New(o.Now)
	if err != nil {
		return nil, err
	}
	return &Handler{o, guard, limit.Must(limit.PerSecond(callsPerSecond)), limit.Must(limit.PerSecond(failuresPerSecond))}, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	defer problems.Recover(w, h.options.OnError)
	grant, because, detail := h.authenticate(r)
	if detail != "" {
		h.options.Refusals.Refused(refusals.Usage, because, r, "")
		if h.guard.AdmitPeer(w, r, h.failures) {
			w.Header().Set("WWW-Authenticate", challenge)
			if r.Header.Get("Authorization") != "" {
				w.Header().Set("WWW-Authenticate", challenge+`, error="invalid_token"`)
			}
			problems.Answer(w, http.StatusUnauthorized, detail)
		}
		return
	}
	if !h.guard.Admit(w, r, grant.Subject, h.calls) {
		// Which customer it is stands in no log: it may be a key of his.
		h.options.Refusals.Refused(refusals.Usage, refusals.RateLimited, r, "")
		return
	}
	h.serve(w, r, grant.Subject)
}

// authenticate returns what the token of a request says, or what is wrong with it. A
// token in the address is none: addresses are logged on the way.
func (h *Handler) authenticate(r *http.Request) (grant usagetoken.Grant, because refusals.Reason, detail string) {
	token, err := tokenfile.Bearer(r.Header.Values("Authorization"))
	switch {
	case err != nil:
		return grant, refusals.Malformed, err.Error()
	case token == "":
		return grant, refusals.NoToken, "no token; hint: Authorization: Bearer TOKEN"
	}
	switch grant, err = h.options.Keys.Verify(token, h.options.Now()); {
	case err == nil:
		return grant, refusals.None, ""
	case errors.Is(err, usagetoken.ErrExpired):
		because = refusals.Expired
	case errors.Is(err, usagetoken.ErrRevoked):
		because = refusals.Revoked
	default:
		because = refusals.BadSignature
	}
	return grant, because, err.Error()
}

// serve answers a tenant.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, subject tenant.Subject) {
	switch {
	case r.URL.Path != Path:
		problems.Answer(w, http.StatusNotFound, "no such path; hint: "+Path)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		problems.Answer(w, http.StatusMethodNotAllowed, "a tenant can read what it has used, and no more; hint: GET")
		return
	case r.URL.RawQuery != "":
		problems.Answer(w, http.StatusBadRequest, "a query; hint: there are no parameters, the token says whose usage it is")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	list, err := h.options.Usage.Usage(ctx, []tenant.Subject{subject})
	if err == nil && len(list) != 1 {
		err = fmt.Errorf("%d answers to one question", len(list))
	}
	if err != nil {
		h.options.OnError(fmt.Errorf("usage endpoint: %w", err))
		problems.Answer(w, http.StatusInternalServerError, "the usage cannot be told; it is in the log of Headgate")
		return
	}
	usage := &list[0]
	switch {
	case len(usage.Limits) == 0:
		problems.Answer(w, http.StatusForbidden, "no rule counts what this tenant does; hint: the provider of the service knows which tenants it has")
	case !slices.ContainsFunc(usage.Limits, known):
		w.Header().Set("Retry-After", retryAfter)
		problems.Answer(w, http.StatusServiceUnavailable, "the store of the counters does not answer")
	default:
		view := usageview.Of(usage)
		view.ForTenant()
		problems.WriteAs(w, "application/json", http.StatusOK, view)
	}
}

// known reports whether what u says is not only that the store did not answer.
func known(u tenantusage.Limit) bool { return u.Unlimited() || u.Counted() }
