package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/strictjson"
)

const (
	// maxToken bounds a token in bytes: those of issuers of logins hold groups.
	maxToken = 16 << 10
	// maxLogin bounds the body of a login in bytes.
	maxLogin = maxToken + 1024
	// maxMe bounds what the admin API says of who asks.
	maxMe = 64 << 10
)

// identity is what GET /admin/v1/me says of who asks.
type identity struct {
	Actor string `json:"actor"`
	Scope string `json:"scope"`
}

// login begins a session for who shows a token that the admin API takes.
func (h *handler) login(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token string `json:"token"`
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLogin))
	if err != nil || strictjson.Decode(data, &body) != nil {
		h.refusals.Refused(refusals.Dashboard, refusals.Malformed, r, "")
		fail(http.StatusBadRequest, "body: not {\"token\": \"...\"} of at most %d bytes", maxLogin).write(w)
		return
	}
	token := strings.TrimSpace(body.Token)
	if !ascii.IsVisible(token) || token == "" || len(token) > maxToken {
		h.refusals.Refused(refusals.Dashboard, refusals.Malformed, r, "")
		fail(http.StatusUnprocessableEntity, "token: not one; hint: a token is 1 to %d letters of visible ASCII", maxToken).write(w)
		return
	}
	answer := h.who(r, token)
	who, ok := answer.identity()
	if !ok {
		answer.pass(w)
		return
	}
	h.drop(r)
	name, begun := h.sessions.begin(who.Actor, func(context.Context) string { return token }, h.now())
	// A browser that sees HTTPS says so here, though a proxy may have taken it off.
	http.SetCookie(w, h.cookie(r, name, h.https(r) || strings.HasPrefix(r.Header.Get("Origin"), "https://")))
	writeJSON(w, struct {
		identity
		ExpiresAt time.Time `json:"expires_at"`
	}{who, begun.expires.UTC()})
}

// who asks the admin API who shows a token, in the name of the sender of r.
func (h *handler) who(r *http.Request, token string) *captured {
	asked := r.Clone(refusals.Through(r.Context(), refusals.Dashboard))
	asked.Method, asked.Body, asked.ContentLength = http.MethodGet, http.NoBody, 0
	asked.URL.Path, asked.URL.RawPath, asked.URL.RawQuery = adminPath+"me", "", ""
	asked.Header = http.Header{"Authorization": {"Bearer " + token}}
	answer := &captured{header: http.Header{}}
	h.api.ServeHTTP(answer, asked)
	return answer
}

// logout ends the session of who asks, if there is one.
func (h *handler) logout(w http.ResponseWriter, r *http.Request) {
	h.drop(r)
	h.forget(w, r)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

// drop ends the session of who asks, if there is one.
func (h *handler) drop(r *http.Request) {
	if s := h.session(r); s != nil {
		h.sessions.drop(s)
	}
}

// session returns that of who asks, nil when there is none.
func (h *handler) session(r *http.Request) *session {
	c := h.brought(r)
	if c == nil {
		return nil
	}
	return h.sessions.find(c.Value, h.now())
}

// hostPrefix begins the names of cookies that browsers take over HTTPS alone, and from no other
// host than the one that they are sent to. So nobody who has a host beside this can have a
// browser log in as somebody else.
const hostPrefix = "__Host-"

// cookieName has the port in it: browsers keep cookies by host alone, and operators
// reach several nodes as ports of one host.
func cookieName(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return "headgate_session_" + port
	}
	return "headgate_session"
}

// https reports whether it is known that the browser which has sent r sees HTTPS. A proxy may
// have taken it off; so false says nothing.
func (h *handler) https(r *http.Request) bool {
	return r.TLS != nil || h.issuer != nil && h.issuer.https && strings.EqualFold(r.Host, h.issuer.host)
}

// brought returns the cookie of a session that r has, nil when there is none. Any host beside
// this can have set one without hostPrefix; so that counts only where there may be no other.
func (h *handler) brought(r *http.Request) *http.Cookie {
	if c, err := r.Cookie(hostPrefix + cookieName(r)); err == nil {
		return c
	}
	if c, err := r.Cookie(cookieName(r)); err == nil && !h.https(r) {
		return c
	}
	return nil
}

// cookie keeps the name of a session, for a browser that sees HTTPS by hostPrefix.
func (h *handler) cookie(r *http.Request, value string, https bool) *http.Cookie {
	c := &http.Cookie{
		Name: cookieName(r), Value: value, Path: "/", MaxAge: int(h.sessions.lasts / time.Second), HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: https,
	}
	if https {
		c.Name = hostPrefix + c.Name
	}
	return c
}

// forget takes away the cookie that r has brought.
func (h *handler) forget(w http.ResponseWriter, r *http.Request) {
	if brought := h.brought(r); brought != nil {
		c := h.cookie(r, "", strings.HasPrefix(brought.Name, hostPrefix))
		c.MaxAge = -1
		http.SetCookie(w, c)
	}
}

// captured is an http.ResponseWriter that keeps a small answer.
type captured struct {
	status int
	header http.Header
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (c *captured) Header() http.Header { return c.header }

// WriteHeader implements http.ResponseWriter.
func (c *captured) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
}

// Write implements http.ResponseWriter.
func (c *captured) Write(b []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	if c.body.Len()+len(b) > maxMe {
		return 0, io.ErrShortWrite
	}
	return c.body.Write(b)
}

// identity is whom an answer of GET /admin/v1/me names; false where it names nobody.
func (c *captured) identity() (who identity, ok bool) {
	return who, c.status == http.StatusOK && json.Unmarshal(c.body.Bytes(), &who) == nil
}

// pass tells the browser why there is no login.
func (c *captured) pass(w http.ResponseWriter) {
	if c.status < http.StatusBadRequest {
		fail(http.StatusBadGateway, "the admin API does not say who asks").write(w)
		return
	}
	if wait := c.header.Get("Retry-After"); wait != "" {
		w.Header().Set("Retry-After", wait)
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", problems.MediaType)
	w.WriteHeader(c.status)
	_, _ = w.Write(c.body.Bytes()) // nobody is there to hear of an error
}
