package adminapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/quotas"
)

// FuzzPath: whatever is asked for, the answer is documented, no bug is met, and a name
// that is taken is shown again as one that names the same account.
func FuzzPath(f *testing.F) {
	s := newTestServer(f, sqliteDSN(f))
	for _, seed := range []string{"quotas/tenant:a", "quotas/%00", "quotas/sk_live_1?x=%", "quotas?limit=7&cursor=x", "../../x", "quotas//", "changes?after=9", "quotas/entry:a:b:c", "usage/tenant:a", "usage?name=a", "usage/x/reset", "switches/rule:%2f", "rules/documents/..", "rules/rows/1", "quotas/tenant:a/top-ups/%00", "tiers/document", "live?topics=fleet", "events/live?key=a", "events?cursor=%00", "keys?by=x", "events/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		target, err := url.Parse("http://headgate" + Prefix + path)
		if err != nil {
			return
		}
		for _, method := range []string{"GET", "PUT", "DELETE", "POST"} {
			r := &http.Request{Method: method, URL: target, Header: http.Header{"Authorization": {"Bearer " + s.tokens[Write]}, "Content-Type": {jsonType}}, RemoteAddr: "192.0.2.1:1"}
			r.Body = http.NoBody
			if method == "PUT" {
				r.Body = struct {
					*strings.Reader
					nothing
				}{strings.NewReader(`{"tier":"pro"}`), nothing{}}
				r.ContentLength = -1
			}
			if pattern := s.handler.pattern(r); strings.HasSuffix(pattern, "/live") {
				gone, cancel := context.WithCancel(t.Context())
				cancel()
				r = r.WithContext(gone) // else it has no end
			}
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, r)
			if w.Code >= 500 {
				t.Fatalf("%s %q: %d %s %s", method, path, w.Code, w.Body, s.reported())
			}
		}
		if name, bad := parseName(path, "name", s.hasher); bad == nil {
			again, bad := parseName(quotas.NameText(name.Subject), "name", nil)
			if bad != nil || again.Subject != name.Subject {
				t.Errorf("%q is shown as %q, which is %+v, %v", path, quotas.NameText(name.Subject), again.Subject, bad)
			}
		}
	})
}

type nothing struct{}

func (nothing) Close() error { return nil }

// FuzzBody: a body is refused with a field named, or becomes an account that says the
// same.
func FuzzBody(f *testing.F) {
	s := newTestServer(f, sqliteDSN(f))
	for _, seed := range []string{
		`{"tier":"pro"}`, `{"tiers":[{"tier":"pro","expires_at":"2026-01-01T00:00:00Z"}]}`, `{"overrides":[{"descriptor":"a:1","unlimited":true}]}`,
		`{"overrides":[{"descriptor":"default","requests_per_unit":5,"unit":"10s","algorithm":"token_bucket","burst":7,"effective_at":"1970-01-01T00:00:00.000001Z"}]}`, `nul`, `{"tier":"a"}{`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		put := func(body string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("PUT", Prefix+"quotas/tenant:a", strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+s.tokens[Write])
			r.Header.Set("Content-Type", jsonType)
			s.handler.ServeHTTP(w, r)
			return w
		}
		w := put(body)
		reply := testReply{w.Code, w.Header(), w.Body.Bytes()}
		if problems := documented("PUT", "quotas/{api_key}", &reply); len(problems) > 0 || w.Code >= 500 {
			t.Fatalf("%d %s: %v", w.Code, w.Body, problems)
		}
		if w.Code >= 400 {
			var p problem
			if reply.json(t, &p); len(p.Errors) == 0 || p.Errors[0].Field == "" {
				t.Fatalf("no field is named: %s", w.Body)
			}
			return
		}
		var v quotaView
		reply.json(t, &v)
		a, err := jsonAnswer(200, v.Account)
		if err != nil {
			t.Fatal(err)
		}
		if again := put(string(a.body)); again.Code != 200 || again.Header().Get("ETag") != w.Header().Get("ETag") {
			t.Fatalf("%s became %s, and that %d %s", body, w.Body, again.Code, again.Body)
		}
	})
}

// FuzzSettings: a body of any route is refused with a field named, or taken; and the
// answer is documented.
func FuzzSettings(f *testing.F) {
	s := newTestServer(f, sqliteDSN(f))
	var taking []route
	for _, way := range routes() {
		if way.body == nil || way.slow || way.signed {
			continue
		}
		taking = append(taking, way)
		f.Add(uint8(len(taking)-1), examples[way.id].body)
	}
	for _, bad := range badSettings() {
		for i, way := range taking {
			if strings.HasPrefix(bad.path, strings.SplitN(way.path, "/{", 2)[0]) && len(bad.body) < 1000 {
				f.Add(uint8(i), bad.body)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, body string) {
		way := taking[int(which)%len(taking)]
		r := httptest.NewRequest(way.method, Prefix+examplePath(way.path), strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+s.tokens[Admin])
		r.Header.Set("Content-Type", way.body.kinds[0])
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		reply := testReply{w.Code, w.Header(), w.Body.Bytes()}
		if problems := documented(way.method, way.path, &reply); len(problems) > 0 || w.Code >= 500 {
			t.Fatalf("%s %q: %d %s: %v %s", way.id, body, w.Code, w.Body, problems, s.reported())
		}
		if w.Code == 400 || w.Code == 422 {
			var p problem
			if reply.json(t, &p); len(p.Errors) == 0 || p.Errors[0].Field == "" {
				t.Fatalf("%s %q: no field is named: %s", way.id, body, w.Body)
			}
		}
	})
}

// TestNamesThatDeceive: what looks like another name is refused, what is only not
// English is not.
func TestNamesThatDeceive(t *testing.T) {
	for text, ok := range map[string]bool{
		"acme": true, "Müller & Söhne": true, "компания": true, "東京": true, "O'Reilly": true, "Ωmega": false, "Ω": true,
		"pаypal": false, "a\u200bb": false, "a\x00": false, "\xff": false, "ａ": false, "𝐚": false, "a\u202eb": false,
	} {
		if got := quotas.Deceptive(text); (got == "") != ok {
			t.Errorf("%q: %q", text, got)
		}
	}
}
