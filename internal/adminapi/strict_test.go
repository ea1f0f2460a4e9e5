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

// TestImportTooLarge: who sends more than an import may have, and reads only when all
// is sent, reads why. Whether the length is known before makes no difference.
func TestImportTooLarge(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	line := `{"name":"tenant:a","tier":"pro"}` + "\n"
	body := strings.Repeat(line, 70<<20/len(line))
	for _, length := range []int64{int64(len(body)), -1} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		req, err := http.NewRequest("POST", s.url+Prefix+"import", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = length
		req.Header.Set("Authorization", "Bearer "+s.tokens[Admin])
		req.Header.Set("Content-Type", linesType)
		if err := req.Write(conn); err != nil {
			t.Fatalf("length %d: the connection ended while the body was sent: %v", length, err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), req)
		if err != nil {
			t.Fatalf("length %d: %v", length, err)
		}
		text, err := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusRequestEntityTooLarge || err != nil || !strings.Contains(string(text), "hint: send it in parts") {
			t.Errorf("length %d: %d %s %v", length, resp.StatusCode, text, err)
		}
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
