package credentials_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/tlsfile"
)

func TestTake(t *testing.T) {
	values := url.Values{"ca": {"/ca"}, "min_tls": {"1.3"}, "password_file": {"/p"}, "sentinel_ca": {"/other"}, "prefix": {"x"}}
	p, err := credentials.Take(values, "")
	if want := (credentials.Params{TLS: credentials.Files{Files: tlsfile.Files{CA: "/ca"}, MinVersion: tls.VersionTLS13}, PasswordFile: "/p"}); err != nil || p != want {
		t.Errorf("%+v, %v", p, err)
	}
	if len(values) != 2 {
		t.Errorf("left are %v", values)
	}
	if p, err := credentials.Take(values, "sentinel_"); err != nil || p.TLS.CA != "/other" || len(values) != 1 {
		t.Errorf("%+v, %v; left are %v", p, err, values)
	}
}

// FuzzTake: what is taken is whole, and what is refused is told with a hint and without
// its value.
func FuzzTake(f *testing.F) {
	for _, seed := range []string{"ca=/a&cert=/b&key=/c&server_name=h&min_tls=1.2&password_file=/p", "ca=&ca=", "password_file=hunter2", "key=%00", "min_tls=1.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		word := values.Get("password_file")
		p, err := credentials.Take(values, "")
		switch {
		case err == nil && ((p.TLS.Cert == "") != (p.TLS.Key == "") || p.PasswordFile != "" && !filepath.IsAbs(p.PasswordFile)):
			t.Errorf("%q: %+v", text, p)
		case err != nil && (!strings.Contains(err.Error(), "; hint: ") || len(word) > 15 && strings.Contains(err.Error(), word)):
			t.Errorf("%q: %v", text, err)
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRefusedParametersAreNotTold: whoever takes a parameter for the secret itself does not find it in
// a log.
func TestRefusedParametersAreNotTold(t *testing.T) {
	for want, values := range map[string]url.Values{
		"its password_file is not an absolute path": {"password_file": {"hunter2"}},
		"it has ca twice": {"ca": {"/hunter2", "/hunter2/other"}},
		"its server_name is not the name of a host": {"server_name": {"hunter2@host"}},
		"its min_tls is not a version":              {"min_tls": {"hunter2"}},
		"a certificate and its key go together":     {"cert": {"/hunter2"}},
	} {
		if _, err := credentials.Take(values, ""); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v, want: %s", values, err, want)
		}
	}
}

// TestEnds: a certificate is to be renewed in its last week.
func TestEnds(t *testing.T) {
	end := time.Date(2026, 3, 8, 23, 30, 0, 0, time.FixedZone("", -3600))
	for before, want := range map[time.Duration]bool{7 * 24 * time.Hour: false, 7*24*time.Hour - 1: true, 0: true, -time.Hour: true} {
		until, renew := credentials.Ends(&x509.Certificate{NotAfter: end}, end.Add(-before))
		if until != "valid until 2026-03-09" || renew != want {
			t.Errorf("%v before: %s, renew %v, want %v", before, until, renew, want)
		}
	}
}

func TestReadPassword(t *testing.T) {
	path := filepath.Join(t.TempDir(), "word")
	for text, want := range map[string]string{"hunter2": "hunter2", "hunter2\n": "hunter2", "hunter2\r\n": "hunter2", " a b \n": " a b "} {
		write(t, path, text)
		if got, err := credentials.ReadPassword(path); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "\n", "hunter2\nhunter3", "hunter\x002", strings.Repeat("hunter2", 1000)} {
		write(t, path, text)
		_, err := credentials.ReadPassword(path)
		var file *credentials.FileError
		if !errors.As(err, &file) || file.Path != path || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if _, err := credentials.ReadPassword("/nowhere/word"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// shaken returns what a server sees of a client with these settings, which must trust it.
func shaken(t *testing.T, server *tls.Config, client *tls.Config) (string, error) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	seen := make(chan string, 1)
	go func() {
		defer close(seen)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if secure := conn.(*tls.Conn); secure.HandshakeContext(t.Context()) == nil {
			seen <- secure.ConnectionState().PeerCertificates[0].SerialNumber.String()
		}
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), client)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return <-seen, nil
}

// Certificates and authorities that change are those of the next connection; what cannot
// be used leaves those of before.
func TestTLSIsReadAgain(t *testing.T) {
	certs, others := testserver.NewCertificates(t), testserver.NewCertificates(t)
	server := func(c *testserver.Certificates) *tls.Config {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}
	}
	cert, key := certs.Issue(t, testserver.Leaf{}) // serial 3
	next, nextKey := certs.Issue(t, testserver.Leaf{})
	files, err := credentials.Load(credentials.Files{Files: tlsfile.Files{CA: certs.CAFile, Cert: cert, Key: key}, ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	step := func(name, serial string, stale bool, with *tls.Config) {
		t.Helper()
		files.Config() // what is wrong is believed when it is seen twice
		config, err := files.Config()
		if stale != (err != nil) {
			t.Errorf("%s: stale: %v", name, err)
		}
		if seen, err := shaken(t, with, config); seen != serial || err != nil && serial != "" {
			t.Errorf("%s: certificate %q, want %q; %v", name, seen, serial, err)
		}
	}
	copyFile := func(from, to string) {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(t, to, string(text))
	}
	step("at first", "3", false, server(certs))
	copyFile(next, cert)
	step("half of the pair", "3", true, server(certs))
	copyFile(nextKey, key)
	step("the pair", "4", false, server(certs))
	write(t, cert, "no certificate")
	step("no certificate", "4", true, server(certs))
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	step("no file", "4", true, server(certs))
	copyFile(next, cert)
	step("the file of before", "4", false, server(certs))
	step("a stranger", "", false, server(others))
	copyFile(others.CAFile, certs.CAFile)
	step("the authority of the stranger", "4", false, server(others))
}
