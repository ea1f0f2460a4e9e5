package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/headgate/headgate/internal/oidclogin"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/sleep"
)

const (
	// loginPaths begin what belongs to logins by an issuer.
	loginPaths = "/login/"
	// waysPath tells the page which ways there are, startPath sends a browser to the issuer,
	// and CallbackPath is where the issuer sends it back to.
	waysPath  = loginPaths + "ways"
	startPath = loginPaths + "oidc"
	// CallbackPath is where an issuer sends browsers back to, below the address of the
	// dashboard.
	CallbackPath = startPath + "/callback"

	// atHome is the query of a start that was sent to the address of the dashboard.
	atHome = "at=home"
	// whyLasts is how long a browser keeps why there was no login.
	whyLasts = time.Minute
	// maxWhy bounds that, in bytes.
	maxWhy = 1 << 10
	// newKeyTries are how often the admin API is asked whether it has read a new key of the
	// issuer by now, and newKeyPause is the time between. It begins to read at once.
	newKeyTries, newKeyPause = 8, time.Second
)

// Issuer is who vouches for people that log in with a browser.
type Issuer struct {
	// Client asks it. Required.
	Client *oidclogin.Client
	// URL is the address by which browsers reach the dashboard, with no path. Required.
	URL string
}

// byIssuer is the way to log in by an issuer.
type byIssuer struct {
	Issuer
	sealer
	host  string // of URL
	https bool   // browsers see HTTPS
}

func newByIssuer(i *Issuer) (*byIssuer, error) {
	if i == nil {
		return nil, nil
	}
	if i.Client == nil || i.URL == "" {
		return nil, errors.New("new dashboard: Issuer: Client and URL are required")
	}
	at, err := url.Parse(i.URL)
	if err != nil {
		return nil, fmt.Errorf("new dashboard: Issuer: URL: %w", err)
	}
	s, err := newSealer()
	if err != nil {
		return nil, fmt.Errorf("new dashboard: %w", err)
	}
	return &byIssuer{Issuer: *i, sealer: s, host: at.Host, https: at.Scheme == "https"}, nil
}

// carried is what the browser of a login keeps until it is logged in: the login that it has
// begun, why there was none, or both.
type carried struct {
	Attempt *oidclogin.Attempt `json:"attempt,omitempty"`
	Why     string             `json:"why,omitempty"`
}

// cookieName is that of what is carried.
func (i *byIssuer) cookieName(r *http.Request) string {
	name := strings.Replace(cookieName(r), "session", "login", 1)
	if i.https {
		return hostPrefix + name
	}
	return name
}

// cookie keeps what is carried for some time; below 0 it takes it away. SameSite is Lax: the
// issuer sends the browser here, and with Strict it would come without.
func (i *byIssuer) cookie(r *http.Request, value string, lasts time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: i.cookieName(r), Value: value, Path: "/", MaxAge: int(lasts / time.Second), HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: i.https,
	}
}

// still keeps what goes on being carried; of nothing it takes the cookie away.
func (i *byIssuer) still(r *http.Request, v carried) *http.Cookie {
	switch {
	case v.Attempt != nil:
		return i.cookie(r, i.seal(v), oidclogin.Lasts)
	case v.Why != "":
		return i.cookie(r, i.seal(v), whyLasts)
	}
	return i.cookie(r, "", -time.Second)
}

func (i *byIssuer) carried(r *http.Request) (v carried, ok bool) {
	c, err := r.Cookie(i.cookieName(r))
	if err != nil {
		return carried{}, false
	}
	return i.open(c.Value)
}

// loginByIssuer answers what is below loginPaths.
func (h *handler) loginByIssuer(w http.ResponseWriter, r *http.Request) {
	i := h.issuer
	switch path := r.URL.Path; {
	case path != waysPath && (i == nil || path != startPath && path != CallbackPath):
		noPage().write(w)
	case r.Method != http.MethodGet:
		notAllowed(w, http.MethodGet)
	case path == waysPath:
		h.ways(w, r)
	case path == startPath:
		h.start(w, r)
	default:
		h.callback(w, r)
	}
}

// ways tells the page of the login which ways there are beside tokens, and once why there was
// no login.
func (h *handler) ways(w http.ResponseWriter, r *http.Request) {
	var say struct {
		Issuer string `json:"issuer,omitempty"`
		Why    string `json:"why,omitempty"`
	}
	if i := h.issuer; i != nil {
		say.Issuer = i.Client.Host()
		if v, ok := i.carried(r); ok && v.Why != "" {
			say.Why = v.Why
			http.SetCookie(w, i.still(r, carried{Attempt: v.Attempt}))
		}
	}
	writeJSON(w, say)
}

// start sends a browser to the issuer. It comes back by the address of the dashboard; so that is
// where it has to begin, because a cookie is of one host. A proxy that asks by another name
// must not make that a circle.
func (h *handler) start(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Host, h.issuer.host) && r.URL.RawQuery != atHome {
		sendTo(w, h.issuer.URL+startPath+"?"+atHome)
		return
	}
	address, attempt, err := h.issuer.Client.Begin(r.Context())
	if err != nil {
		h.noLogin(w, r, err)
		return
	}
	http.SetCookie(w, h.issuer.still(r, carried{Attempt: &attempt}))
	sendTo(w, address)
}

// callback begins a session for whom the issuer vouches, if the admin API lets him in.
func (h *handler) callback(w http.ResponseWriter, r *http.Request) {
	v, _ := h.issuer.carried(r)
	if v.Attempt == nil {
		h.noLogin(w, r, oidclogin.Unasked())
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		h.noLogin(w, r, oidclogin.Unasked())
		return
	}
	tokens, err := h.issuer.Client.Finish(r.Context(), *v.Attempt, query)
	if err != nil {
		h.noLogin(w, r, err)
		return
	}
	answer := h.letIn(r, tokens.ID.Reveal())
	who, ok := answer.identity()
	if !ok {
		h.noLogin(w, r, errors.New("the issuer vouches for you, and the admin API does not let you in: "+answer.detail()))
		return
	}
	h.drop(r)
	// A token that is not renewed ends by itself, and the session with it, when the admin API
	// says so.
	name, _ := h.sessions.begin(who.Actor, renewed(h.issuer.Client, tokens, h.now), h.now())
	http.SetCookie(w, h.cookie(r, name, h.https(r) || h.issuer.https))
	http.SetCookie(w, h.issuer.still(r, carried{}))
	sendTo(w, "/")
}

// letIn asks the admin API who shows a token. A key of the issuer may be so new that the API
// has not read it yet: then it says when to ask again.
func (h *handler) letIn(r *http.Request, token string) *captured {
	for tries := newKeyTries; ; tries-- {
		answer := h.who(r, token)
		later := answer.header.Get("Retry-After") != "" && (answer.status == http.StatusUnauthorized || answer.status == http.StatusServiceUnavailable)
		if !later || tries == 0 {
			return answer
		}
		if sleep.For(r.Context(), newKeyPause) != nil {
			return answer
		}
	}
}

// noLogin sends a browser to the page of the login, which says why there is none.
func (h *handler) noLogin(w http.ResponseWriter, r *http.Request, err error) {
	text, says := err.Error(), carried{}
	if why, ok := errors.AsType[*oidclogin.Error](err); ok {
		// What else there is to know is for operators, and in the log.
		text = why.Text
		switch why.Because {
		case oidclogin.Stray:
			// The login that this browser has begun last goes on: another tab, or a page of
			// somebody else, may have brought this answer.
			was, _ := h.issuer.carried(r)
			says.Attempt = was.Attempt
			h.refusals.Refused(refusals.Dashboard, refusals.Malformed, r, "")
		case oidclogin.Untrusted:
			h.refusals.Refused(refusals.Dashboard, refusals.OfCredential(why.Reason), r, "")
		}
	}
	says.Why = readable(text)
	http.SetCookie(w, h.issuer.still(r, says))
	sendTo(w, "/")
}

// readable is text as a page shows it, and as a cookie has room for it: what is not printed takes
// six bytes for each in JSON.
func readable(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxWhy)], "")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)
}

// sendTo answers with an address to go to. What brought the browser here may hold a code,
// which the page that it sees must not have in its address.
func sendTo(w http.ResponseWriter, address string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", address)
	w.WriteHeader(http.StatusSeeOther)
}

// detail is what an answer of the admin API says of why it is no other.
func (c *captured) detail() string {
	var p problem
	if json.Unmarshal(c.body.Bytes(), &p) != nil || p.Detail == "" {
		return fmt.Sprintf("status %d", c.status)
	}
	return p.Detail
}
