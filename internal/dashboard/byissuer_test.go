package dashboard

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/oidclogin"
	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/testissuer"
)

// lodge is a dashboard with an issuer over an admin API that believes its tokens.
type lodge struct {
	*desk
	issuer *testissuer.Issuer
	home   string
	shown  []string // tokens, without repeats
	// late is how often the API still says that it does not know the key.
	late int
}

func newLodge(t *testing.T, home string) *lodge {
	t.Helper()
	l := &lodge{desk: newDesk(t), home: home}
	now := func() time.Time { return l.now }
	l.issuer = testissuer.New(t, now)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(testissuer.Secret), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := oidclogin.New(oidclogin.Options{Issuer: l.issuer.URL, ID: testissuer.ClientID, SecretFile: secret, Redirect: home + CallbackPath, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if l.handler, err = New(Options{API: http.HandlerFunc(l.serve), Session: time.Hour, Issuer: &Issuer{client, home}, Now: now}); err != nil {
		t.Fatal(err)
	}
	return l
}

// serve is the admin API.
func (l *lodge) serve(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !slices.Contains(l.shown, token) {
		l.shown = append(l.shown, token)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		l.api.ServeHTTP(w, r)
		return
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Exp    int64
		Groups []string
	}
	if err == nil {
		err = json.Unmarshal(payload, &claims)
	}
	switch {
	case err != nil || !l.now.Before(time.Unix(claims.Exp, 0)):
		fail(http.StatusUnauthorized, "token expired").write(w)
	case l.late > 0:
		l.late--
		w.Header().Set("Retry-After", "5")
		fail(http.StatusUnauthorized, "the key is not known").write(w)
	case len(claims.Groups) == 0:
		fail(http.StatusForbidden, "oidc:ann has the scope none, and this needs read").write(w)
	default:
		writeJSON(w, identity{"oidc:ann", "admin"})
	}
}

// browser keeps cookies as a browser does.
type browser struct {
	l       *lodge
	cookies map[string]*http.Cookie
}

func (l *lodge) browser() *browser { return &browser{l, map[string]*http.Cookie{}} }

// ask goes to an address of the dashboard.
func (b *browser) ask(method, target string, edits ...func(*http.Request)) *httptest.ResponseRecorder {
	b.l.t.Helper()
	body := ""
	if method == "POST" {
		body = "{}"
	}
	edits = append([]func(*http.Request){func(r *http.Request) {
		home, err := url.Parse(b.l.home)
		if err != nil {
			b.l.t.Fatal(err)
		}
		r.Host = home.Host
		for _, c := range b.cookies {
			r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
		}
	}}, edits...)
	w := b.l.desk.ask(method, target, body, edits...)
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c
		}
	}
	return w
}

// start begins a login and returns how the issuer sends the browser back.
func (b *browser) start() string {
	b.l.t.Helper()
	w := b.ask("GET", startPath, with("Sec-Fetch-Site", "same-origin"))
	if w.Code != http.StatusSeeOther || w.Header().Get("Cache-Control") != "no-store" {
		b.l.t.Fatalf("start: %d %s %v", w.Code, w.Body, w.Header())
	}
	return CallbackPath + "?" + b.l.issuer.Login(w.Header().Get("Location")).Encode()
}

// back comes back from the issuer.
func (b *browser) back(target string) *httptest.ResponseRecorder {
	b.l.t.Helper()
	w := b.ask("GET", target, with("Sec-Fetch-Site", "cross-site"))
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" || w.Header().Get("Cache-Control") != "no-store" {
		b.l.t.Errorf("back: %d %s %v", w.Code, w.Body, w.Header())
	}
	return w
}

func (b *browser) login() {
	b.l.t.Helper()
	b.back(b.start())
	if w := b.ask("GET", "/api/me"); w.Code != http.StatusOK {
		b.l.t.Fatalf("after the login: %d %s, why %q", w.Code, w.Body, b.why())
	}
}

// why is what the page of the login says.
func (b *browser) why() string {
	b.l.t.Helper()
	var say struct{ Issuer, Why string }
	if err := json.Unmarshal(b.ask("GET", waysPath).Body.Bytes(), &say); err != nil || !strings.HasPrefix(say.Issuer, "127.0.0.1:") {
		b.l.t.Errorf("%+v, %v", say, err)
	}
	return say.Why
}

// TestLoginByIssuer: who comes back from the issuer has a session with its token, which ends
// like any other, and what he came back with is good for nothing more.
func TestLoginByIssuer(t *testing.T) {
	l := newLodge(t, "http://gate:9292")
	b := l.browser()
	target := b.start()
	carried := b.cookies["headgate_login_9292"]
	b.back(target)
	if len(b.cookies) != 1 {
		t.Errorf("the browser has %v", b.cookies)
	}
	w := b.ask("GET", "/api/me")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "oidc:ann") || len(l.shown) != 1 {
		t.Errorf("%d %s, %d tokens shown; why %q", w.Code, w.Body, len(l.shown), b.why())
	}
	thief := l.browser()
	thief.cookies[carried.Name] = carried
	thief.back(target)
	if why := thief.why(); thief.ask("GET", "/api/me").Code != http.StatusUnauthorized || !strings.Contains(why, "does not take the code or token any more") {
		t.Errorf("by the same code: %q", why)
	}
	if n := len(l.handler.(*handler).sessions.mu.byKey); n != 1 {
		t.Errorf("%d sessions, want one", n)
	}
	for _, s := range l.handler.(*handler).sessions.mu.byKey {
		if s.actor != "oidc:ann" {
			t.Errorf("the session is one of %q", s.actor)
		}
		for _, format := range []string{"%v", "%+v", "%#v"} {
			if strings.Contains(fmt.Sprintf(format, s), l.shown[0]) {
				t.Errorf("%s of a session shows the token", format)
			}
		}
	}
	if w := b.ask("POST", "/logout"); w.Code != http.StatusNoContent || b.ask("GET", "/api/me").Code != http.StatusUnauthorized {
		t.Errorf("logout: %d", w.Code)
	}
}

// TestCookiesOfALogin: the cookie that goes to the issuer and back is Lax, that of the session
// is Strict, and where browsers see HTTPS both are Secure and no other host can set them.
func TestCookiesOfALogin(t *testing.T) {
	for _, c := range []struct{ home, begun, session string }{
		{"http://gate:9292", "headgate_login_9292=V; Path=/; Max-Age=600; HttpOnly; SameSite=Lax", "headgate_session_9292=V; Path=/; Max-Age=3600; HttpOnly; SameSite=Strict"},
		{"https://gate.example", "__Host-headgate_login=V; Path=/; Max-Age=600; HttpOnly; Secure; SameSite=Lax", "__Host-headgate_session=V; Path=/; Max-Age=3600; HttpOnly; Secure; SameSite=Strict"},
	} {
		l := newLodge(t, c.home)
		b := l.browser()
		target := b.start()
		var got []string
		for _, cookie := range b.cookies {
			got = append(got, strings.Replace(cookie.Raw, cookie.Value, "V", 1))
		}
		for _, cookie := range b.back(target).Result().Cookies() {
			if cookie.MaxAge > 0 {
				got = append(got, strings.Replace(cookie.Raw, cookie.Value, "V", 1))
			}
		}
		if want := []string{c.begun, c.session}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestCallbackBehindAProxy: a proxy that takes HTTPS off may ask by another host name than browsers
// do. The cookies are as safe all the same: no other host can set them.
func TestCallbackBehindAProxy(t *testing.T) {
	l := newLodge(t, "https://gate.example")
	b := l.browser()
	inside := func(r *http.Request) { r.Host = "headgate-1.internal" }
	begun := b.ask("GET", startPath+"?"+atHome, inside)
	back := b.ask("GET", CallbackPath+"?"+l.issuer.Login(begun.Header().Get("Location")).Encode(), inside)
	for _, c := range slices.Concat(begun.Result().Cookies(), back.Result().Cookies()) {
		if !strings.HasPrefix(c.Name, hostPrefix) || !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" {
			t.Errorf("%s", c.Raw)
		}
	}
	if w := b.ask("GET", "/api/me", inside); w.Code != http.StatusOK {
		t.Errorf("logged in so: %d %s", w.Code, w.Body)
	}
}

// TestLoginIsOfItsBrowser: what one browser has begun no other can end, so that nobody is logged
// in as somebody else without knowing, and a second process knows nothing of it.
func TestLoginIsOfItsBrowser(t *testing.T) {
	l := newLodge(t, "http://gate:9292")
	other := newLodge(t, "http://gate:9292")
	mallory := l.browser()
	for name, cookie := range map[string]func() *http.Cookie{
		"none":               func() *http.Cookie { return &http.Cookie{} },
		"of its own":         func() *http.Cookie { b := l.browser(); b.start(); return b.cookies["headgate_login_9292"] },
		"made up":            func() *http.Cookie { return &http.Cookie{Name: "headgate_login_9292", Value: "e30"} },
		"of another process": func() *http.Cookie { b := other.browser(); b.start(); return b.cookies["headgate_login_9292"] },
		"changed": func() *http.Cookie {
			b := l.browser()
			b.start()
			c := b.cookies["headgate_login_9292"]
			c.Value = c.Value[:20] + "AAAA" + c.Value[24:]
			return c
		},
		"huge": func() *http.Cookie {
			return &http.Cookie{Name: "headgate_login_9292", Value: strings.Repeat("A", maxSealed+1)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			target := mallory.start()
			victim := l.browser()
			if c := cookie(); c.Name != "" {
				victim.cookies[c.Name] = c
			}
			victim.back(target)
			if _, there := victim.cookies["headgate_session_9292"]; there {
				t.Error("the victim is logged in")
			}
			if why := victim.why(); !strings.Contains(why, "that this browser has not begun here") {
				t.Errorf("why: %q", why)
			}
			if why := victim.why(); why != "" {
				t.Errorf("it says it again: %q", why)
			}
		})
	}
	b := l.browser()
	b.start()
	b.back(CallbackPath + "?error=access_denied&error_description=" + url.QueryEscape("call +1 555 and tell your password"))
	if why := b.why(); strings.Contains(why, "password") {
		t.Errorf("a page of somebody else chooses what is shown: %q", why)
	}
}

// TestTwoTabs: an answer to a login that another tab has replaced, or that somebody else has
// begun, does not end the one that this browser has begun last.
func TestTwoTabs(t *testing.T) {
	l := newLodge(t, "http://gate:9292")
	b := l.browser()
	first, second, mallory := b.start(), b.start(), l.browser().start()
	for _, target := range []string{first, mallory, CallbackPath, CallbackPath + "?error=access_denied"} {
		b.back(target)
		if c := b.cookies["headgate_login_9292"]; c == nil || c.MaxAge != int(oidclogin.Lasts/time.Second) {
			t.Errorf("%s: the login that goes on is kept by %v", target, c)
		}
		if why := b.why(); b.ask("GET", "/api/me").Code != http.StatusUnauthorized || !strings.Contains(why, "that another one has replaced") {
			t.Errorf("%s: why %q", target, why)
		}
		if why := b.why(); why != "" {
			t.Errorf("it says it again: %q", why)
		}
	}
	b.back(first) // and why is not looked at
	b.back(second)
	if w := b.ask("GET", "/api/me"); w.Code != http.StatusOK || len(b.cookies) != 1 {
		t.Errorf("the login that was begun last: %d %s, cookies %v", w.Code, w.Body, b.cookies)
	}
}

// TestSessionIsNew: a login ends the session that the browser had, and takes no name that it
// brought.
func TestSessionIsNew(t *testing.T) {
	l := newLodge(t, "http://gate:9292")
	b := l.browser()
	b.cookies["headgate_session_9292"] = &http.Cookie{Name: "headgate_session_9292", Value: "chosen"}
	b.login()
	first := b.cookies["headgate_session_9292"]
	b.login()
	if second := b.cookies["headgate_session_9292"]; first.Value == "chosen" || second.Value == first.Value {
		t.Error("the session has the name of one before")
	}
	b.cookies[first.Name] = first
	if w := b.ask("GET", "/api/me"); w.Code != http.StatusUnauthorized {
		t.Errorf("the session before: %d", w.Code)
	}
}

// TestWhyThereIsNoLogin: the page of the login says what the admin API and the issuer have said.
func TestWhyThereIsNoLogin(t *testing.T) {
	for name, c := range map[string]struct {
		how  testissuer.Behaviour
		edit func(q url.Values)
		want string
	}{
		"no scope":       {how: testissuer.Behaviour{Claims: map[string]any{"groups": nil}}, want: "the admin API does not let you in: oidc:ann has the scope none"},
		"clocks":         {how: testissuer.Behaviour{Claims: map[string]any{"iat": 4000000000}}, want: "hint: the clocks of the issuer and of this node"},
		"consent denied": {edit: func(q url.Values) { q.Set("error", "access_denied") }, want: "you have not agreed to it (access_denied)"},
		"nonce":          {how: testissuer.Behaviour{Claims: map[string]any{"nonce": "x"}}, want: "for another login (nonce)"},
	} {
		l := newLodge(t, "http://gate:9292")
		l.issuer.Behave(c.how)
		b := l.browser()
		path, query, _ := strings.Cut(b.start(), "?")
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if c.edit != nil {
			c.edit(q)
		}
		b.back(path + "?" + q.Encode())
		if why := b.why(); !strings.Contains(why, c.want) || b.ask("GET", "/api/me").Code != http.StatusUnauthorized {
			t.Errorf("%s: %q", name, why)
		}
	}
	l := newLodge(t, "http://gate:9292")
	l.issuer.Behave(testissuer.Behaviour{Down: true})
	b := l.browser()
	if w := b.ask("GET", startPath); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if why := b.why(); why != "the issuer does not say how one logs in" {
		t.Errorf("why: %q", why)
	}
}

// TestStartIsAtHome: a login begins at the address that the issuer sends back to, wherever the
// page was opened, and goes to no other address.
func TestStartIsAtHome(t *testing.T) {
	l := newLodge(t, "http://gate:9292")
	b := l.browser()
	elsewhere := func(r *http.Request) { r.Host = "evil.example" }
	w := b.ask("GET", startPath, elsewhere)
	if w.Header().Get("Location") != "http://gate:9292/login/oidc?at=home" || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("%v", w.Header())
	}
	w = b.ask("GET", startPath+"?at=home", elsewhere)
	if !strings.HasPrefix(w.Header().Get("Location"), l.issuer.URL+"/authorize?") {
		t.Errorf("%v", w.Header())
	}
}

// TestTokenIsRenewed: a session has the token of the issuer renewed before it ends, as long as
// the issuer does; and ends with the token when it does not.
func TestTokenIsRenewed(t *testing.T) {
	good := testissuer.Behaviour{Renews: true, Lifetime: 5 * time.Minute}
	begin := func(t *testing.T) (*lodge, *browser) {
		t.Helper()
		l := newLodge(t, "http://gate:9292")
		l.issuer.Behave(good)
		b := l.browser()
		b.login()
		return l, b
	}
	me := func(b *browser) int { return b.ask("GET", "/api/me").Code }
	t.Run("for as long as the session lasts", func(t *testing.T) {
		l, b := begin(t)
		for range 12 {
			l.now = l.now.Add(4*time.Minute + 45*time.Second)
			if got := me(b); got != http.StatusOK {
				t.Fatalf("%d", got)
			}
		}
		if len(l.shown) != 13 {
			t.Errorf("%d tokens were shown", len(l.shown))
		}
		l.now = l.now.Add(3 * time.Minute)
		if got := me(b); got != http.StatusUnauthorized {
			t.Errorf("after the session: %d", got)
		}
	})
	t.Run("not for whom the issuer does not vouch any more", func(t *testing.T) {
		l, b := begin(t)
		l.issuer.Behave(testissuer.Behaviour{Token: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		}})
		l.now = l.now.Add(4*time.Minute + 45*time.Second)
		if got := me(b); got != http.StatusOK {
			t.Errorf("until the token ends: %d", got)
		}
		_, before := l.issuer.Counts()
		l.now = l.now.Add(15 * time.Second)
		if got := me(b); got != http.StatusUnauthorized {
			t.Errorf("then: %d", got)
		}
		if _, after := l.issuer.Counts(); after != before {
			t.Error("the issuer was asked again")
		}
	})
	t.Run("when the issuer is back", func(t *testing.T) {
		l, b := begin(t)
		l.issuer.Behave(testissuer.Behaviour{Down: true})
		l.now = l.now.Add(4*time.Minute + 40*time.Second)
		_, before := l.issuer.Counts()
		for range 3 {
			if got := me(b); got != http.StatusOK {
				t.Errorf("while the token lasts: %d", got)
			}
		}
		if _, after := l.issuer.Counts(); after != before+1 {
			t.Errorf("the issuer was asked %d times", after-before)
		}
		l.issuer.Behave(good)
		l.now = l.now.Add(renewPause)
		if got := me(b); got != http.StatusOK || len(l.shown) != 2 {
			t.Errorf("%d, %d tokens", got, len(l.shown))
		}
	})
	t.Run("not where there is nothing to renew it by", func(t *testing.T) {
		l := newLodge(t, "http://gate:9292")
		l.issuer.Behave(testissuer.Behaviour{Lifetime: 5 * time.Minute})
		b := l.browser()
		b.login()
		l.now = l.now.Add(5 * time.Minute)
		if got := me(b); got != http.StatusUnauthorized || len(b.cookies) != 0 {
			t.Errorf("%d %v", got, b.cookies)
		}
	})
}

// TestKeyThatTheAPIReadsLate: a login by a new key waits until the admin API has read it.
func TestKeyThatTheAPIReadsLate(t *testing.T) {
	l := newLodge(t, "http://gate:9292")
	l.late = 1
	l.browser().login()
}

// TestWays: without an issuer there are tokens alone.
func TestWays(t *testing.T) {
	d := newDesk(t)
	if w := d.ask("GET", waysPath, ""); w.Code != http.StatusOK || w.Body.String() != "{}\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	l := newLodge(t, "http://gate:9292")
	for _, c := range []struct {
		d              *desk
		method, target string
		status         int
	}{
		{d, "GET", startPath, 404}, {d, "GET", CallbackPath, 404}, {d, "GET", "/login/", 404}, {d, "POST", waysPath, 405},
		{l.desk, "GET", "/login/other", 404}, {l.desk, "POST", startPath, 405}, {l.desk, "HEAD", startPath, 405}, {l.desk, "POST", CallbackPath, 405},
	} {
		body := ""
		if c.method == "POST" {
			body = "{}"
		}
		w := c.d.ask(c.method, c.target, body)
		if w.Code != c.status || w.Header().Get("Content-Type") != problems.MediaType {
			t.Errorf("%s %s: %d, want %d", c.method, c.target, w.Code, c.status)
		}
	}
	if _, err := New(Options{API: newAdmin(), Issuer: &Issuer{}}); err == nil {
		t.Error("an issuer without a client is none")
	}
}

// FuzzSealed: what a browser brings back is what was sealed here, or nothing.
func FuzzSealed(f *testing.F) {
	s, err := newSealer()
	if err != nil {
		f.Fatal(err)
	}
	f.Add("")
	f.Add("e30")
	f.Add(strings.Repeat("A", 100))
	f.Add(strings.Repeat("<", maxWhy))
	f.Add(strings.Repeat("\"", maxWhy))
	f.Add(strings.Repeat("\x1b", maxWhy))
	f.Add(strings.Repeat("\u2028", maxWhy))
	f.Fuzz(func(t *testing.T, text string) {
		if v, ok := s.open(text); ok {
			t.Errorf("%q is %+v", text, v)
		}
		if v, ok := s.open(s.seal(carried{Why: readable(text)})); !ok || v.Attempt != nil {
			t.Errorf("%q comes back as %+v, %v", text, v, ok)
		}
	})
}
