package dashboard

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/problems"
)

// admin stands for the admin API: it takes the tokens that it knows, and says what it
// was asked.
type admin struct {
	mu     sync.Mutex
	tokens map[string]string // scopes
	actor  string            // of them all
	asked  []string
	last   *http.Request
}

const goodToken = "hga_good"

func newAdmin() *admin { return &admin{tokens: map[string]string{goodToken: "write"}, actor: "ann"} }

func (a *admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.last = r
	a.asked = append(a.asked, r.Method+" "+r.URL.EscapedPath())
	scope, actor := a.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")], a.actor
	a.mu.Unlock()
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case strings.HasPrefix(r.RemoteAddr, "10.6.6.6:"):
		w.Header().Set("Retry-After", "1")
		fail(http.StatusTooManyRequests, "too many bad tokens").write(w)
	case scope == "":
		w.Header().Set("WWW-Authenticate", "Bearer")
		fail(http.StatusUnauthorized, "the token is not known").write(w)
	case r.URL.Path == "/admin/v1/me":
		writeJSON(w, identity{actor, scope})
	case r.URL.Path == "/admin/v1/live":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: overview\ndata: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("ETag", `"7"`)
		w.Header().Set("Set-Cookie", "a=b")
		writeJSON(w, map[string]string{"body": string(body)})
	}
}

func (a *admin) revoke() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.tokens)
}

// desk is a dashboard over an admin, with a clock that stands still.
type desk struct {
	t       *testing.T
	api     *admin
	handler http.Handler
	now     time.Time
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, api: newAdmin(), now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	var err error
	if d.handler, err = New(Options{API: d.api, Session: time.Hour, Now: func() time.Time { return d.now }}); err != nil {
		t.Fatal(err)
	}
	return d
}

// ask sends a request as a page of the dashboard does, but for what edit changes.
func (d *desk) ask(method, target, body string, edits ...func(*http.Request)) *httptest.ResponseRecorder {
	d.t.Helper()
	r := httptest.NewRequestWithContext(d.t.Context(), method, "http://gate:9292"+target, strings.NewReader(body))
	r.RemoteAddr = "192.0.2.7:4711"
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, edit := range edits {
		edit(r)
	}
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	return w
}

func with(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		if value == "" {
			r.Header.Del(name)
			return
		}
		r.Header.Set(name, value)
	}
}

func from(addr string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = addr } }

// login returns an edit that adds the cookie of a new session.
func (d *desk) login(edits ...func(*http.Request)) func(*http.Request) {
	d.t.Helper()
	w := d.ask("POST", "/login", `{"token": "`+goodToken+`"}`, edits...)
	if w.Code != http.StatusOK {
		d.t.Fatalf("login: %d %s", w.Code, w.Body)
	}
	cookies := w.Result().Cookies()
	return func(r *http.Request) {
		for _, c := range cookies {
			r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
		}
	}
}

func TestNewNeedsAnAPI(t *testing.T) {
	for _, o := range []Options{{}, {API: newAdmin(), Session: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("New(%+v) has no error", o)
		}
	}
}

func TestLogin(t *testing.T) {
	d := newDesk(t)
	for _, tt := range []struct {
		name, body string
		edit       func(*http.Request)
		status     int
		says       string
	}{
		{name: "good", body: `{"token": "hga_good"}`, status: 200, says: `{"actor":"ann","scope":"write","expires_at":"2026-11-22T13:00:00Z"}`},
		{name: "with blanks around", body: `{"token": " hga_good\n"}`, status: 200, says: "ann"},
		{name: "unknown", body: `{"token": "hga_bad"}`, status: 401, says: "the token is not known"},
		{name: "empty", body: `{"token": ""}`, status: 422, says: "token: not one"},
		{name: "none", body: `{}`, status: 422, says: "token: not one"},
		{name: "two words", body: `{"token": "hga_good x"}`, status: 422, says: "token: not one"},
		{name: "a line more", body: `{"token": "hga_good\r\nX: y"}`, status: 422, says: "token: not one"},
		{name: "too long", body: `{"token": "` + strings.Repeat("a", maxToken+1) + `"}`, status: 422, says: "token: not one"},
		{name: "a large body", body: `{"token": "` + strings.Repeat("a", 1<<20) + `"}`, status: 400, says: "body: not"},
		{name: "no JSON", body: `token=hga_good`, status: 400, says: "body: not"},
		{name: "throttled", body: `{"token": "hga_good"}`, edit: from("10.6.6.6:1"), status: 429, says: "too many bad tokens"},
		{name: "a form", body: `{"token": "hga_good"}`, edit: with("Content-Type", "text/plain"), status: 415, says: "Content-Type"},
		{name: "from elsewhere", body: `{"token": "hga_good"}`, edit: with("Sec-Fetch-Site", "cross-site"), status: 403, says: "another origin"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			edit := tt.edit
			if edit == nil {
				edit = func(*http.Request) {}
			}
			w := d.ask("POST", "/login", tt.body, edit)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, tt.status, tt.says)
			}
			if has := w.Header().Get("Set-Cookie") != ""; has != (tt.status == 200) {
				t.Errorf("Set-Cookie is there: %v", has)
			}
			if w.Header().Get("WWW-Authenticate") != "" || w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("header %v", w.Header())
			}
			if tt.status == 429 && w.Header().Get("Retry-After") != "1" {
				t.Error("no Retry-After")
			}
		})
	}
	if w := d.ask("GET", "/login", ""); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
		t.Errorf("GET /login: %d %v", w.Code, w.Header())
	}
}

// The admin API sees from where a login comes, and of the browser's header nothing.
func TestLoginAsksInTheNameOfItsSender(t *testing.T) {
	d := newDesk(t)
	d.login(with("Cookie", "other=1"), with("X-Forwarded-For", "1.2.3.4"))
	r := d.api.last
	if r.RemoteAddr != "192.0.2.7:4711" || r.URL.Path != "/admin/v1/me" || r.Method != "GET" || len(r.Header) != 1 {
		t.Errorf("the API was asked %s %s from %s with %v", r.Method, r.URL, r.RemoteAddr, r.Header)
	}
}

func TestCookie(t *testing.T) {
	d := newDesk(t)
	for _, tt := range []struct {
		name, origin string
		edit         func(*http.Request)
		want         string
	}{
		{"plain", "http://gate:9292", func(*http.Request) {}, "headgate_session_9292=V; Path=/; Max-Age=3600; HttpOnly; SameSite=Strict"},
		{"behind a proxy with TLS", "https://gate:9292", func(*http.Request) {}, "__Host-headgate_session_9292=V; Path=/; Max-Age=3600; HttpOnly; Secure; SameSite=Strict"},
		{"usual port", "https://gate", func(r *http.Request) { r.Host = "gate" }, "__Host-headgate_session=V; Path=/; Max-Age=3600; HttpOnly; Secure; SameSite=Strict"},
	} {
		w := d.ask("POST", "/login", `{"token": "hga_good"}`, with("Origin", tt.origin), tt.edit)
		got := w.Header().Get("Set-Cookie")
		cookie, err := http.ParseSetCookie(got)
		if err != nil {
			t.Fatal(err)
		}
		if len(cookie.Value) != 43 {
			t.Errorf("%s: the name of the session has %d letters, want 43: 256 bits", tt.name, len(cookie.Value))
		}
		if got := strings.Replace(got, cookie.Value, "V", 1); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestCookieOfAnotherHost: where browsers see HTTPS, a host beside this one can neither have
// them take part in a session of its own nor end the one that they have.
func TestCookieOfAnotherHost(t *testing.T) {
	const plain, own = "headgate_session_9292", "__Host-headgate_session_9292"
	d := newDesk(t)
	begin := func(edits ...func(*http.Request)) *http.Cookie {
		return d.ask("POST", "/login", `{"token": "hga_good"}`, edits...).Result().Cookies()[0]
	}
	overTLS := func(r *http.Request) { r.TLS = &tls.ConnectionState{} }
	https := with("Origin", "https://gate:9292")
	theirs, mine := begin(), begin(https)
	if theirs.Name != plain || mine.Name != own || begin(overTLS).Name != own {
		t.Fatalf("the cookies are %s and %s", theirs.Name, mine.Name)
	}
	bring := func(pairs ...string) func(*http.Request) { return with("Cookie", strings.Join(pairs, "; ")) }
	code := func(edits ...func(*http.Request)) int { return d.ask("GET", "/api/me", "", edits...).Code }
	if got := code(overTLS, bring(plain+"="+theirs.Value)); got != http.StatusUnauthorized {
		t.Errorf("over TLS a cookie that any host can set: %d", got)
	}
	if got := code(bring(plain + "=" + theirs.Value)); got != http.StatusOK {
		t.Errorf("without TLS: %d", got)
	}
	both := bring(plain+"="+theirs.Value, own+"="+mine.Value)
	w := d.ask("POST", "/logout", "{}", both, https)
	if got := w.Header().Get("Set-Cookie"); got != own+"=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Strict" {
		t.Errorf("logout: %d, %s", w.Code, got)
	}
	if got := code(bring(own + "=" + mine.Value)); got != http.StatusUnauthorized {
		t.Errorf("after the logout: %d", got)
	}
	if got := code(bring(plain+"="+theirs.Value, own+"="+begin(https).Value)); got != http.StatusOK {
		t.Errorf("with both: %d", got)
	}
	if got := code(bring(plain + "=" + theirs.Value)); got != http.StatusOK {
		t.Errorf("the logout has ended the session of another cookie: %d", got)
	}
}

// TestCookieBehindAProxyThatTakesOffHTTPS: at the address that browsers reach by HTTPS, however it
// is spelled, a cookie that a host beside it can set is none; at another one it may be the only one.
func TestCookieBehindAProxyThatTakesOffHTTPS(t *testing.T) {
	h := &handler{issuer: &byIssuer{host: "gate.example", https: true}}
	for host, want := range map[string]bool{"gate.example": false, "GATE.Example": false, "node": true} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://"+host+"/api/me", nil)
		r.AddCookie(&http.Cookie{Name: "headgate_session", Value: "V"})
		if got := h.brought(r) != nil; got != want {
			t.Errorf("%s: %t, want %t", host, got, want)
		}
	}
}

// Who asks for the token of a session does not get it: neither in an answer nor by
// printing what the dashboard has in memory.
func TestTokenIsNotShown(t *testing.T) {
	d := newDesk(t)
	cookie := d.login()
	for _, target := range []string{"/", "/api/me", "/api/quotas", "/login", "/nothing"} {
		w := d.ask("GET", target, "", cookie)
		if text := fmt.Sprint(w.Header()) + w.Body.String(); strings.Contains(text, goodToken) {
			t.Errorf("GET %s answers with the token: %s", target, text)
		}
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, s := range d.handler.(*handler).sessions.mu.byKey {
			if strings.Contains(fmt.Sprintf(format, s), goodToken) {
				t.Errorf("%s of a session shows the token", format)
			}
		}
	}
}

func TestForward(t *testing.T) {
	d := newDesk(t)
	cookie := d.login()
	w := d.ask("PUT", "/api/quotas/tenant:a%2Fb?x=1&y=%20", `{"tier":"pro"}`, cookie, with("If-Match", `"6"`), with("X-Forwarded-For", "1.2.3.4"), with("Authorization", "Bearer other"), with("Idempotency-Key", "k"))
	if w.Code != 200 || w.Body.String() != `{"body":"{\"tier\":\"pro\"}"}`+"\n" || w.Header().Get("ETag") != `"7"` {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	if w.Header().Get("Set-Cookie") != "" {
		t.Error("a cookie of the API has passed")
	}
	r := d.api.last
	if r.Method != "PUT" || r.URL.EscapedPath() != "/admin/v1/quotas/tenant:a%2Fb" || r.URL.RawQuery != "x=1&y=%20" || r.RemoteAddr != "192.0.2.7:4711" {
		t.Errorf("the API was asked %s %s from %s", r.Method, r.URL, r.RemoteAddr)
	}
	want := http.Header{"Authorization": {"Bearer " + goodToken}, "Content-Type": {"application/json"}, "If-Match": {`"6"`}, "Idempotency-Key": {"k"}}
	if fmt.Sprint(r.Header) != fmt.Sprint(want) {
		t.Errorf("with %v, want %v", r.Header, want)
	}
	if w := d.ask("HEAD", "/api/quotas", "", cookie); w.Code != 200 {
		t.Errorf("HEAD: %d", w.Code)
	}
	for _, edit := range []func(*http.Request){func(*http.Request) {}, with("Cookie", "headgate_session_9292=x"), with("Authorization", "Bearer "+goodToken)} {
		if w := d.ask("GET", "/api/quotas", "", edit); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "nobody is logged in") {
			t.Errorf("without a session: %d %s", w.Code, w.Body)
		}
	}
}

// However a path is written, it reaches no more of the API than what stands below
// /admin/v1/, and no file that is not one of the dashboard.
func TestPathsStayInside(t *testing.T) {
	d := newDesk(t)
	cookie := d.login()
	for _, target := range []string{"/api/../login", "/api/..%2f..%2fother", "/api/%2e%2e/me", "/api//me", "/api/"} {
		d.ask("GET", target, "", cookie)
	}
	for _, asked := range d.api.asked {
		if _, path, _ := strings.Cut(asked, " "); !strings.HasPrefix(path, adminPath) {
			t.Errorf("the API was asked %s", asked)
		}
	}
	for _, target := range []string{"/../doc.go", "/assets/../dashboard.go", "/assets/%2e%2e/dashboard.go", "/assets/", "/assets", "/style.css", "/assets/0000000000000000/style.css", "/index.html", "/assets/index.html", "//", "/api", "/dashboard.go"} {
		if w := d.ask("GET", target, ""); w.Code != http.StatusNotFound {
			t.Errorf("GET %s: %d %s", target, w.Code, w.Body)
		}
	}
}

func TestRequestsOfOtherPages(t *testing.T) {
	d := newDesk(t)
	cookie := d.login()
	none := func(*http.Request) {}
	for _, tt := range []struct {
		name, method string
		edits        []func(*http.Request)
		status       int
	}{
		{"own page", "PUT", []func(*http.Request){none}, 200},
		{"another site", "PUT", []func(*http.Request){with("Sec-Fetch-Site", "cross-site")}, 403},
		{"another port or name below the domain", "PUT", []func(*http.Request){with("Sec-Fetch-Site", "same-site")}, 403},
		{"another origin, an old browser", "PUT", []func(*http.Request){with("Sec-Fetch-Site", ""), with("Origin", "http://evil.example")}, 403},
		{"no origin at all", "PUT", []func(*http.Request){with("Sec-Fetch-Site", ""), with("Origin", "null")}, 403},
		{"own origin, an old browser", "PUT", []func(*http.Request){with("Sec-Fetch-Site", ""), with("Origin", "http://gate:9292")}, 200},
		{"a program", "PUT", []func(*http.Request){with("Sec-Fetch-Site", "")}, 200},
		{"rules", "PUT", []func(*http.Request){with("Content-Type", "application/yaml")}, 200},
		{"text", "PUT", []func(*http.Request){with("Content-Type", "text/plain")}, 415},
		{"a form", "POST", []func(*http.Request){with("Content-Type", "application/x-www-form-urlencoded")}, 415},
		{"a form that says nothing", "POST", []func(*http.Request){with("Content-Type", "")}, 415},
		{"deleting from elsewhere", "DELETE", []func(*http.Request){with("Sec-Fetch-Site", "cross-site")}, 403},
		{"reading from elsewhere", "GET", []func(*http.Request){with("Sec-Fetch-Site", "cross-site")}, 403},
		{"reading from a name below the domain", "GET", []func(*http.Request){with("Sec-Fetch-Site", "same-site")}, 403},
		{"an address that is typed in", "GET", []func(*http.Request){with("Sec-Fetch-Site", "none")}, 200},
	} {
		if w := d.ask(tt.method, "/api/quotas/tenant:a", "{}", append(tt.edits, cookie)...); w.Code != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.name, w.Code, w.Body, tt.status)
		}
	}
	if w := d.ask("POST", "/logout", "{}", cookie, with("Sec-Fetch-Site", "cross-site")); w.Code != http.StatusForbidden {
		t.Errorf("logout from elsewhere: %d", w.Code)
	}
	if w := d.ask("GET", "/", "", with("Sec-Fetch-Site", "cross-site")); w.Code != 200 {
		t.Errorf("a link to the dashboard: %d", w.Code)
	}
}

func TestSessionsEnd(t *testing.T) {
	alive := func(d *desk, cookie func(*http.Request)) int { return d.ask("GET", "/api/me", "", cookie).Code }
	t.Run("after their time", func(t *testing.T) {
		d := newDesk(t)
		cookie := d.login()
		d.now = d.now.Add(time.Hour - time.Second)
		if got := alive(d, cookie); got != 200 {
			t.Errorf("a second before: %d", got)
		}
		d.now = d.now.Add(time.Second)
		if got := alive(d, cookie); got != 401 {
			t.Errorf("after: %d", got)
		}
	})
	t.Run("by a logout", func(t *testing.T) {
		d := newDesk(t)
		cookie, other := d.login(), d.login()
		w := d.ask("POST", "/logout", "{}", cookie)
		if w.Code != http.StatusNoContent || !strings.Contains(w.Header().Get("Set-Cookie"), "Max-Age=0") {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		if alive(d, cookie) != 401 || alive(d, other) != 200 {
			t.Error("it is not this login alone that has ended")
		}
	})
	t.Run("by another login of the browser", func(t *testing.T) {
		d := newDesk(t)
		cookie := d.login()
		d.login(cookie)
		if got := alive(d, cookie); got != 401 {
			t.Errorf("the session before: %d", got)
		}
	})
	t.Run("when the token is revoked", func(t *testing.T) {
		d := newDesk(t)
		cookie := d.login()
		d.api.revoke()
		w := d.ask("GET", "/api/quotas", "", cookie)
		if w.Code != 401 || !strings.Contains(w.Header().Get("Set-Cookie"), "Max-Age=0") || w.Header().Get("WWW-Authenticate") != "" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		asked := len(d.api.asked)
		if w := d.ask("GET", "/api/quotas", "", cookie); w.Code != 401 || len(d.api.asked) != asked {
			t.Errorf("later: %d, and the API was asked %d times more", w.Code, len(d.api.asked)-asked)
		}
	})
	t.Run("when there are too many", func(t *testing.T) {
		d := newDesk(t)
		first, second := d.login(), d.login()
		for range maxSessions - 1 {
			d.login()
		}
		if alive(d, first) != 401 || alive(d, second) != 200 {
			t.Error("not the oldest alone has ended")
		}
		if s := d.handler.(*handler).sessions; len(s.mu.byKey) != maxSessions || len(s.mu.order) != maxSessions {
			t.Errorf("%d and %d sessions are remembered", len(s.mu.byKey), len(s.mu.order))
		}
	})
	t.Run("but not by many of somebody else", func(t *testing.T) {
		d := newDesk(t)
		ann := d.login()
		d.api.mu.Lock()
		d.api.tokens, d.api.actor = map[string]string{goodToken: "read"}, "bob"
		d.api.mu.Unlock()
		first := d.login()
		for range maxSessions {
			d.login()
		}
		if alive(d, ann) != 200 || alive(d, first) != 401 {
			t.Error("it is not the oldest login of the actor with the most that has ended")
		}
	})
	t.Run("and are forgotten", func(t *testing.T) {
		d := newDesk(t)
		for range 5 {
			d.login()
		}
		d.now = d.now.Add(2 * time.Hour)
		d.login()
		if s := d.handler.(*handler).sessions; len(s.mu.byKey) != 1 || len(s.mu.order) != 1 {
			t.Errorf("%d and %d sessions are remembered", len(s.mu.byKey), len(s.mu.order))
		}
	})
}

// A stream is flushed as it comes, and ends with its session.
func TestStream(t *testing.T) {
	for _, how := range []string{"logout", "revoked"} {
		t.Run(how, func(t *testing.T) {
			d := newDesk(t)
			// A stream that outlives its session is an error here, not the end of all tests.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			server := httptest.NewServer(d.handler)
			defer server.Close()
			login, err := server.Client().Post(server.URL+"/login", "application/json", strings.NewReader(`{"token": "hga_good"}`))
			if err != nil {
				t.Fatal(err)
			}
			login.Body.Close()
			send := func(method, path string) *http.Response {
				t.Helper()
				r, err := http.NewRequestWithContext(ctx, method, server.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				r.AddCookie(login.Cookies()[0])
				resp, err := server.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				return resp
			}
			stream := send("GET", "/api/live")
			defer stream.Body.Close()
			first := make([]byte, len("event: overview"))
			if _, err := io.ReadFull(stream.Body, first); err != nil || string(first) != "event: overview" {
				t.Fatalf("%q, %v", first, err)
			}
			if how == "logout" {
				send("POST", "/logout").Body.Close()
			} else {
				d.api.revoke()
				send("GET", "/api/quotas").Body.Close()
			}
			if _, err := io.Copy(io.Discard, stream.Body); err != nil {
				t.Errorf("after the end of the session the stream ends with %v", err)
			}
		})
	}
}

// The answers that the dashboard makes itself are problem details, like those of the API.
func TestProblems(t *testing.T) {
	d := newDesk(t)
	w := d.ask("GET", "/api/me", "")
	var p problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Header().Get("Content-Type") != problems.MediaType || p.Status != 401 || p.Title != "Unauthorized" || p.Detail == "" {
		t.Errorf("%v %s %v", w.Header(), w.Body, err)
	}
}
