package adminapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// TestOldNamesCanGo: accounts that have names which nobody could give them now are
// shown, listed and taken out, and not written.
func TestOldNamesCanGo(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	for _, subject := range []tenant.Subject{
		{Key: "tenant", Value: "acme "}, {Key: "tenant", Value: "cafe\u0301"}, {Key: "org ", Value: " acme"}, {Key: "tenant", Value: "\u0430cme"},
	} {
		if err := quotas.CheckNew(subject); err == nil {
			t.Fatalf("%q could be given", subject)
		}
		_, err := s.db.Update(t.Context(), sqltenant.Change{
			Subject: subject, Actor: "test", Version: sqltenant.Anyway, At: s.clock(),
			Edit: func(r *sqltenant.Record) error {
				r.Tiers = []tenant.Assignment{{Tier: "pro"}}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		path := "quotas/" + url.PathEscape(quotas.NameText(subject))
		var v quotaView
		s.want(s.do(Read, "GET", path, ""), 200).json(t, &v)
		if v.Name != quotas.NameText(subject) {
			t.Errorf("%q is shown as %q", subject, v.Name)
		}
		s.wantField(s.do(Write, "PUT", path, `{"tier":"free"}`), 422, "api_key")
		s.want(s.do(Write, "DELETE", path, ""), 204)
		s.want(s.do(Read, "GET", path, ""), 404)
	}
}

// sendAll sends a request with a body, of a length that is told or not, and reads only when
// all is sent, as simple clients do.
func sendAll(t *testing.T, s *testServer, req *http.Request, told bool) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if !told {
		req.ContentLength = -1
	}
	if err := req.Write(conn); err != nil {
		t.Fatalf("told %v: the connection ended while the body was sent: %v", told, err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		t.Fatalf("told %v: %v", told, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("told %v: %v", told, err)
	}
	return resp, string(text)
}

// TestImportTooLarge: who sends more than an import may have, and reads only when all
// is sent, reads why. Whether the length is known before makes no difference.
func TestImportTooLarge(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	line := `{"name":"tenant:a","tier":"pro"}` + "\n"
	body := strings.Repeat(line, 70<<20/len(line))
	for _, told := range []bool{true, false} {
		req, err := http.NewRequest("POST", s.url+Prefix+"import", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.tokens[Admin])
		req.Header.Set("Content-Type", linesType)
		resp, text := sendAll(t, s, req, told)
		if resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(text, "hint: send it in parts") {
			t.Errorf("told %v: %d %s", told, resp.StatusCode, text)
		}
	}
}

// TestBodyOfWhoIsRefused: who is refused before the body is read, and reads only when all
// of it is sent, reads why.
func TestBodyOfWhoIsRefused(t *testing.T) {
	body := strings.Repeat(" ", 16<<20)
	for _, tt := range []struct {
		name, method, path, kind string
		token                    Scope
		spent                    bool // the rate of who asks is used up
		want                     int
	}{
		{"asks too often", "POST", "import", linesType, Admin, true, 429},
		{"no token", "POST", "import", linesType, 0, false, 401},
		{"no token too often", "POST", "import", linesType, 0, true, 429},
		{"scope", "POST", "import", linesType, Read, false, 403},
		{"path", "POST", "imports", linesType, Admin, false, 404},
		{"method", "PATCH", "import", linesType, Admin, false, 405},
		{"type", "POST", "import", "text/html", Admin, false, 415},
		{"parameter", "POST", "import?x=1", linesType, Admin, false, 400},
		{"route without a body", "GET", "me", jsonType, Read, false, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newTestServer(t, sqliteDSN(t))
			request := func(body io.Reader) *http.Request {
				req, err := http.NewRequest(tt.method, s.url+Prefix+tt.path, body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", tt.kind)
				if token := s.tokens[tt.token]; token != "" {
					req.Header.Set("Authorization", "Bearer "+token)
				}
				return req
			}
			for s.step = 0; tt.spent; {
				resp, err := s.client.Do(request(nil))
				if err != nil {
					t.Fatal(err)
				}
				if resp.Body.Close(); resp.StatusCode == http.StatusTooManyRequests {
					break
				}
			}
			for _, told := range []bool{true, false} {
				if resp, text := sendAll(t, s, request(strings.NewReader(body)), told); resp.StatusCode != tt.want {
					t.Errorf("told %v: %d %s", told, resp.StatusCode, text)
				}
			}
		})
	}
}

// TestImportNotBegun: who waits to be told to send a body that is too large is told not
// to, and sends nothing.
func TestImportNotBegun(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %simport HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		Prefix, s.tokens[Admin], linesType, 1<<30)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatalf("%v, %v", resp, err)
	}
}
