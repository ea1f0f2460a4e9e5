package dashboard

import (
	"cmp"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/refusals"
)

// Options configures a Handler.
type Options struct {
	// API is the admin API, which answers under /admin/v1/. Required.
	API http.Handler
	// Session is how long a login lasts. 0 is 12 hours.
	Session time.Duration
	// Issuer is by whom people log in beside tokens; nil: by tokens alone.
	Issuer *Issuer
	// Refusals counts whom the dashboard turns away; nil: they are not counted. The API
	// counts whom it does.
	Refusals *refusals.Log
	// Now is the clock; nil means the wall clock.
	Now func() time.Time
}

const defaultSession = 12 * time.Hour

// New returns the dashboard. Its handler is safe for concurrent use.
func New(o Options) (http.Handler, error) {
	if o.API == nil {
		return nil, errors.New("new dashboard: API is required")
	}
	if o.Session < 0 {
		return nil, errors.New("new dashboard: Session is below 0")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	files, err := loadAssets()
	if err != nil {
		return nil, err
	}
	issuer, err := newByIssuer(o.Issuer)
	if err != nil {
		return nil, err
	}
	return &handler{
		issuer: issuer, api: o.API, now: o.Now, refusals: o.Refusals, files: files, origins: http.NewCrossOriginProtection(),
		sessions: newSessions(cmp.Or(o.Session, defaultSession)),
	}, nil
}

type handler struct {
	api      http.Handler
	issuer   *byIssuer // nil: people log in by tokens alone
	refusals *refusals.Log
	now      func() time.Time
	files    map[string]*asset // by path
	origins  *http.CrossOriginProtection
	sessions *sessions
}

// apiPath begins what is asked of the admin API, adminPath the same towards it.
const (
	apiPath   = "/api/"
	adminPath = "/admin/v1/"
)

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header(), r)
	if p := h.refuse(r); p != nil {
		p.write(w)
		return
	}
	path := r.URL.Path
	switch {
	case strings.HasPrefix(path, apiPath):
		h.forward(w, r)
	case path == "/login" && r.Method == http.MethodPost:
		h.login(w, r)
	case path == "/logout" && r.Method == http.MethodPost:
		h.logout(w, r)
	case path == "/login" || path == "/logout":
		notAllowed(w, http.MethodPost)
	case strings.HasPrefix(path, loginPaths):
		h.loginByIssuer(w, r)
	case h.files[path] == nil:
		noPage().write(w)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		notAllowed(w, "GET, HEAD")
	default:
		h.files[path].serve(w, r)
	}
}

func noPage() *problem {
	return fail(http.StatusNotFound, "there is no such page; hint: the dashboard is at /")
}

// contentSecurity lets pages load what this process serves and nothing else, and run no
// script or style that stands in a page.
const contentSecurity = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"font-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// secure sets what every answer has.
func secure(h http.Header, r *http.Request) {
	h.Set("Content-Security-Policy", contentSecurity)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	if r.TLS != nil {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// refuse returns why a page of another origin may have sent r, nil when none can have.
// The cookie is SameSite=Strict besides; so it takes two failures.
func (h *handler) refuse(r *http.Request) *problem {
	if site := r.Header.Get("Sec-Fetch-Site"); strings.HasPrefix(r.URL.Path, apiPath) && (site == "cross-site" || site == "same-site") {
		h.refusals.Refused(refusals.Dashboard, refusals.Origin, r, "")
		return fail(http.StatusForbidden, "a page of another origin has asked")
	}
	if h.origins.Check(r) != nil {
		h.refusals.Refused(refusals.Dashboard, refusals.Origin, r, "")
		return fail(http.StatusForbidden, "a page of another origin has asked; hint: a proxy in front of the dashboard has to pass Host on as it is")
	}
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		// Forms, which need no permission to send anywhere, can send neither.
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != jsonType && kind != yamlType {
			return fail(http.StatusUnsupportedMediaType, "Content-Type: not %s or %s", jsonType, yamlType)
		}
	}
	return nil
}
