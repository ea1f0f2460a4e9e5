package client_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
)

// TestCredentials: a Checker shows its certificate and its token to a server that wants
// both, and knows it by an authority in a file; changed files are in force at the next
// connection, those that cannot be used are not.
func TestCredentials(t *testing.T) {
	certs := testserver.NewCertificates(t)
	var shown []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown = append(shown, r.Header.Get("Authorization")+" "+r.TLS.PeerCertificates[0].Subject.CommonName+" "+r.Proto)
		w.Header().Set("Connection", "close")
		_, _ = w.Write([]byte(`{"allowed":true}`))
	}))
	pair, err := tls.LoadX509KeyPair(certs.CertFile, certs.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: certs.Client().RootCAs, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	install := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	issue := func(name string) {
		t.Helper()
		cert, key := certs.Issue(t, testserver.Leaf{CommonName: name})
		install(cert, at("cert"))
		install(key, at("key"))
	}
	issue("one")
	if err := os.WriteFile(at("token"), []byte("hgct_one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	far := remote(t, client.CheckerOptions{URL: server.URL, Budget: time.Minute, Credentials: client.Credentials{
		TokenFile: at("token"), CAFile: certs.CAFile, CertFile: at("cert"), KeyFile: at("key"),
	}})
	want := func(text string) {
		t.Helper()
		shown = nil
		far.Close() // the next call makes a connection
		responses := make([]headgate.Response, 1)
		err := far.Check(t.Context(), []headgate.Request{ask(1, "user", "1")}, responses)
		if err != nil || !responses[0].Allowed || len(shown) != 1 || shown[0] != text {
			t.Errorf("%q, %+v, %v; want %q", shown, responses, err, text)
		}
	}
	want("Bearer hgct_one one HTTP/1.1")
	issue("two")
	want("Bearer hgct_one two HTTP/1.1")
	if err := os.WriteFile(at("cert"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("Bearer hgct_one two HTTP/1.1")
}

// TestTokenFileIsReadAgain: a second later; one that is gone leaves the token in force.
func TestTokenFileIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, got := filepath.Join(t.TempDir(), "token"), ""
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("one")
		far := remote(t, client.CheckerOptions{URL: "http://localhost:1", Credentials: client.Credentials{TokenFile: path}, Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
			got = r.Header.Get("Authorization")
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"allowed":true}`))}, nil
		})})
		want := func(token string) {
			t.Helper()
			if err := far.Check(t.Context(), []headgate.Request{ask(1, "user", "1")}, make([]headgate.Response, 1)); err != nil || got != "Bearer "+token {
				t.Errorf("%q, %v; want %s", got, err, token)
			}
		}
		want("one")
		write("two")
		want("one")
		time.Sleep(time.Second)
		want("two")
		write("no\ntoken")
		time.Sleep(time.Second)
		want("two")
		write("Bearer token") // which no server knows
		time.Sleep(time.Second)
		want("two")
		write("three")
		time.Sleep(time.Second)
		want("three")
	})
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestStrangersToTheServer: a server that knows no authority of ours, or that we do not know,
// is no answer.
func TestStrangersToTheServer(t *testing.T) {
	certs, others := testserver.NewCertificates(t), testserver.NewCertificates(t)
	server := certs.HTTPServer(t, http.NotFoundHandler())
	for name, c := range map[string]client.Credentials{"another authority": {CAFile: others.CAFile}, "another name": {CAFile: certs.CAFile, ServerName: "other.internal"}} {
		far := remote(t, client.CheckerOptions{URL: server.URL, Budget: time.Minute, Credentials: c})
		responses := make([]headgate.Response, 1)
		if err := far.Check(t.Context(), []headgate.Request{ask(1, "user", "1")}, responses); err != nil || len(responses[0].Verdicts) != 1 || responses[0].Verdicts[0].Degraded != store.Unavailable {
			t.Errorf("%s: %+v, %v", name, responses, err)
		}
	}
}

// TestBadCredentials: what does not go together is refused at once, and no token is told.
func TestBadCredentials(t *testing.T) {
	certs := testserver.NewCertificates(t)
	for want, o := range map[string]client.CheckerOptions{
		"one of them":        {Credentials: client.Credentials{Token: "hgct_secret", TokenFile: certs.CAFile}},
		"more than one line": {Credentials: client.Credentials{TokenFile: certs.CAFile}},
		"token file ":        {Credentials: client.Credentials{TokenFile: certs.CAFile}},
		"; hint: the file":   {Credentials: client.Credentials{TokenFile: "/does/not/exist"}},
		"control character":  {Credentials: client.Credentials{Token: "hgct_secret\n"}},
		"begins with":        {Credentials: client.Credentials{Token: "bearer hgct_secret"}},
		"no such file":       {Credentials: client.Credentials{TokenFile: "/does/not/exist"}},
		"hint: https":        {URL: "http://headgate", Credentials: client.Credentials{CAFile: certs.CAFile}},
		"beside a Transport": {Credentials: client.Credentials{CAFile: certs.CAFile}, Transport: http.DefaultTransport},
		"without its key":    {Credentials: client.Credentials{CertFile: certs.CertFile}},
		"PRIVATE KEY":        {Credentials: client.Credentials{CAFile: certs.KeyFile}},
	} {
		if o.URL == "" {
			o.URL = "https://headgate"
		}
		if _, err := client.NewChecker(o); err == nil || strings.Contains(err.Error(), "hgct_secret") || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o.Credentials, err, want)
		}
	}
}
