package tlsfile_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/tlsfile"
)

// folder holds files under names that stay while what they hold changes.
type folder struct {
	t   *testing.T
	dir string
}

func newFolder(t *testing.T, c *testserver.Certificates) (folder, tlsfile.Files) {
	t.Helper()
	f := folder{t, t.TempDir()}
	f.copy(c.CertFile, "cert.pem")
	f.copy(c.KeyFile, "key.pem")
	f.copy(c.CAFile, "ca.pem")
	return f, tlsfile.Files{Cert: f.path("cert.pem"), Key: f.path("key.pem"), CA: f.path("ca.pem")}
}

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f folder) copy(from, to string) {
	f.t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		f.t.Fatal(err)
	}
	f.write(to, string(data))
}

func (f folder) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func load(t *testing.T, files tlsfile.Files) *tlsfile.Source {
	t.Helper()
	s, err := tlsfile.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// handshake connects a client to a server, and returns what each says; of TLS 1.3 the
// client hears by its first read whether it was let in.
func handshake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		a, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		s := tls.Server(a, server)
		defer s.Close()
		if err = s.HandshakeContext(t.Context()); err == nil {
			_, err = s.Write([]byte("x"))
		}
		done <- err
	}()
	b, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(b, client)
	_, err = io.ReadFull(c, make([]byte, 1))
	b.Close()
	served := <-done
	return c.ConnectionState(), errors.Join(err, served)
}

var now = time.Now()

// TestReload: what files hold is in force when it has changed, for who connects then, on
// both sides; what cannot be used leaves what was before, and is told once.
func TestReload(t *testing.T) {
	first, second := testserver.NewCertificates(t), testserver.NewCertificates(t)
	f, files := newFolder(t, first)
	s := load(t, files)
	server := s.Server(tlsfile.Server{})
	reload := func(wantChanged bool, wantErr string) {
		t.Helper()
		changed, err := s.Reload(now)
		if changed != wantChanged || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Fatalf("Reload: %v, %v; want %v, %q", changed, err, wantChanged, wantErr)
		}
	}
	trusts := func(c *testserver.Certificates, what string) {
		t.Helper()
		if _, err := handshake(t, server, c.ClientWith(t, c.CertFile, c.KeyFile)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	reload(false, "")
	trusts(first, "at first")

	f.write("cert.pem", "no certificate\n")
	reload(false, "") // it may be written at this very moment
	reload(true, "PEM")
	reload(false, "")
	trusts(first, "a bad file leaves the one before")
	if state := s.State(); state.Failures != 1 || state.Refused == nil || state.NotAfter.IsZero() {
		t.Fatalf("state %+v", state)
	}
	os.Remove(f.path("cert.pem"))
	reload(false, "")
	reload(true, "no such file")
	trusts(first, "a file that is gone leaves the one before")

	f.copy(second.CertFile, "cert.pem")
	reload(false, "") // not yet the key
	f.copy(second.KeyFile, "key.pem")
	f.copy(second.CAFile, "ca.pem")
	reload(true, "")
	trusts(second, "after a change")
	if _, err := handshake(t, server, first.ClientWith(t, first.CertFile, first.KeyFile)); err == nil {
		t.Fatal("the authority before is still trusted")
	}
	if state := s.State(); state.Failures != 2 || state.Refused != nil {
		t.Fatalf("state %+v", state)
	}

	// As a client: the server shows one certificate, and then the other.
	if _, err := handshake(t, load(t, tlsfile.Files{Cert: second.CertFile, Key: second.KeyFile}).Server(tlsfile.Server{}), s.Client("localhost")); err != nil {
		t.Fatalf("as a client: %v", err)
	}
	f.copy(first.CAFile, "ca.pem")
	reload(true, "")
	if _, err := handshake(t, load(t, tlsfile.Files{Cert: second.CertFile, Key: second.KeyFile}).Server(tlsfile.Server{}), s.Client("localhost")); err == nil {
		t.Fatal("a client trusts an authority that was taken out")
	}
}

// TestBackToTheOneBefore: a file that is put back is not told of as a change, and one that
// was refused may be refused again.
func TestBackToTheOneBefore(t *testing.T) {
	c := testserver.NewCertificates(t)
	f, files := newFolder(t, c)
	s := load(t, files)
	for range 2 {
		f.write("key.pem", "?")
		if changed, err := s.Reload(now); changed || err != nil {
			t.Fatalf("first look: %v, %v", changed, err)
		}
		if changed, err := s.Reload(now); !changed || err == nil {
			t.Fatalf("second look: %v, %v", changed, err)
		}
		f.copy(c.KeyFile, "key.pem")
		if changed, err := s.Reload(now); changed || err != nil {
			t.Fatalf("put back: %v, %v", changed, err)
		}
		if state := s.State(); state.Refused != nil {
			t.Fatalf("state %+v", state)
		}
	}
}

// TestChainEndsWithItsFirst: an authority in the chain that expires before the certificate ends it.
func TestChainEndsWithItsFirst(t *testing.T) {
	c := testserver.NewCertificates(t)
	text, err := os.ReadFile(c.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{-time.Hour, time.Hour} {
		leaf := authority.NotAfter.Add(after)
		cert, key := c.Issue(t, testserver.Leaf{NotAfter: leaf})
		own, err := os.ReadFile(cert)
		if err != nil {
			t.Fatal(err)
		}
		chain := filepath.Join(t.TempDir(), "chain.pem")
		if err := os.WriteFile(chain, append(own, text...), 0o600); err != nil {
			t.Fatal(err)
		}
		want := authority.NotAfter
		if leaf.Before(want) {
			want = leaf
		}
		if got := load(t, tlsfile.Files{Cert: chain, Key: key}).State().NotAfter; !got.Equal(want) {
			t.Errorf("the certificate ends at %v and its authority at %v: the chain ends at %v", leaf, authority.NotAfter, got)
		}
	}
}

// TestExpired: a certificate that has expired does not take the place of one that has
// not, and takes that of one that has.
func TestExpired(t *testing.T) {
	c := testserver.NewCertificates(t)
	f, files := newFolder(t, c)
	s := load(t, files)
	cert, key := c.Issue(t, testserver.Leaf{NotAfter: now.Add(-time.Minute)})
	f.copy(cert, "cert.pem")
	f.copy(key, "key.pem")
	s.Reload(now)
	if changed, err := s.Reload(now); !changed || err == nil || !strings.Contains(err.Error(), "expired") {
		t.Fatalf("%v, %v", changed, err)
	}
	if changed, err := s.Reload(now.Add(-time.Hour)); changed || err != nil {
		t.Fatalf("told twice: %v, %v", changed, err)
	}
	old := load(t, files)
	if got := old.State().NotAfter; !got.Before(now) {
		t.Fatalf("NotAfter %v", got)
	}
	other, otherKey := c.Issue(t, testserver.Leaf{NotAfter: now.Add(-time.Second)})
	f.copy(other, "cert.pem")
	f.copy(otherKey, "key.pem")
	if changed, err := old.Reload(now); !changed || err != nil {
		t.Fatalf("both have expired: %v, %v", changed, err)
	}
}

// TestClients: who is let in by certificate, by what the server asks for.
func TestClients(t *testing.T) {
	ours, others := testserver.NewCertificates(t), testserver.NewCertificates(t)
	spiffe, err := tlsfile.ParseName("spiffe://prod/ns/edge/*")
	if err != nil {
		t.Fatal(err)
	}
	edgeCert, edgeKey := ours.Issue(t, testserver.Leaf{URIs: []string{"spiffe://prod/ns/edge/sa/envoy"}})
	cronCert, cronKey := ours.Issue(t, testserver.Leaf{CommonName: "cron", URIs: []string{"spiffe://prod/ns/batch/sa/cron"}})
	foreign := ours.Client()
	foreign.Certificates = others.ClientWith(t, others.CertFile, others.KeyFile).Certificates
	edge, cron, nobody := ours.ClientWith(t, edgeCert, edgeKey), ours.ClientWith(t, cronCert, cronKey), ours.Client()
	old := ours.Client()
	old.MinVersion, old.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	withCA := tlsfile.Files{Cert: ours.CertFile, Key: ours.KeyFile, CA: ours.CAFile}
	without := tlsfile.Files{Cert: ours.CertFile, Key: ours.KeyFile}
	for _, c := range []struct {
		name   string
		files  tlsfile.Files
		server tlsfile.Server
		client *tls.Config
		in     bool
	}{
		{"no authority, no certificate", without, tlsfile.Server{}, nobody, true},
		{"required, none shown", withCA, tlsfile.Server{}, nobody, false},
		{"required, shown", withCA, tlsfile.Server{}, cron, true},
		{"required, of another authority", withCA, tlsfile.Server{}, foreign, false},
		{"optional, none shown", withCA, tlsfile.Server{Optional: true}, nobody, true},
		{"optional, of another authority", withCA, tlsfile.Server{Optional: true}, foreign, false},
		{"named, with the name", withCA, tlsfile.Server{Names: []tlsfile.Name{spiffe}}, edge, true},
		{"named, with another", withCA, tlsfile.Server{Names: []tlsfile.Name{spiffe}}, cron, false},
		{"optional and named, none shown", withCA, tlsfile.Server{Optional: true, Names: []tlsfile.Name{spiffe}}, nobody, true},
		{"optional and named, another", withCA, tlsfile.Server{Optional: true, Names: []tlsfile.Name{spiffe}}, cron, false},
		{"TLS 1.1", without, tlsfile.Server{}, old, false},
		{"no certificate to serve with", tlsfile.Files{}, tlsfile.Server{}, nobody, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := load(t, c.files).Server(c.server)
			if _, err := handshake(t, server, c.client); (err == nil) != c.in {
				t.Errorf("let in is %v: %v", err == nil, err)
			}
		})
	}
}

// TestProtocols: ALPN takes what both speak, and refuses who offers nothing of it.
func TestProtocols(t *testing.T) {
	c := testserver.NewCertificates(t)
	server := load(t, tlsfile.Files{Cert: c.CertFile, Key: c.KeyFile}).Server(tlsfile.Server{Protocols: []string{"h2"}})
	for offered, ok := range map[string]bool{"h2": true, "imap": false} {
		client := c.Client()
		client.NextProtos = []string{offered}
		state, err := handshake(t, server, client)
		if (err == nil) != ok || ok && state.NegotiatedProtocol != offered {
			t.Errorf("%s: %q, %v", offered, state.NegotiatedProtocol, err)
		}
	}
}

// TestNoTickets: who shows certificates is looked at anew each time, because a session that
// goes on would outlive what was taken back.
func TestNoTickets(t *testing.T) {
	c := testserver.NewCertificates(t)
	for _, ca := range []string{"", c.CAFile} {
		server := load(t, tlsfile.Files{Cert: c.CertFile, Key: c.KeyFile, CA: ca}).Server(tlsfile.Server{})
		client := c.ClientWith(t, c.CertFile, c.KeyFile)
		client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		var resumed bool
		for range 2 {
			state, err := handshake(t, server, client)
			if err != nil {
				t.Fatal(err)
			}
			resumed = state.DidResume
		}
		if resumed != (ca == "") {
			t.Errorf("authorities %q: resumed %v", ca, resumed)
		}
	}
}

// TestLoadRefuses: files that cannot be used are refused at the start, with their path.
func TestLoadRefuses(t *testing.T) {
	c, other := testserver.NewCertificates(t), testserver.NewCertificates(t)
	f := folder{t, t.TempDir()}
	f.write("empty", "")
	f.write("large", strings.Repeat("x", 1<<20+1))
	ca, _ := os.ReadFile(c.CAFile)
	f.write("torn", string(ca)+string(ca[:len(ca)/2]))
	for _, c := range []struct {
		name  string
		files tlsfile.Files
		want  string
	}{
		{"no key", tlsfile.Files{Cert: c.CertFile}, "without its key"},
		{"no certificate", tlsfile.Files{Key: c.KeyFile}, "without its key"},
		{"another's key", tlsfile.Files{Cert: c.CertFile, Key: other.KeyFile}, other.KeyFile},
		{"not there", tlsfile.Files{CA: f.path("none")}, "none"},
		{"empty", tlsfile.Files{CA: f.path("empty")}, "no certificate"},
		{"large", tlsfile.Files{CA: f.path("large")}, "more than 1048576 bytes; hint: "},
		{"a key among authorities", tlsfile.Files{CA: c.KeyFile}, "PRIVATE KEY"},
		{"torn authorities", tlsfile.Files{CA: f.path("torn")}, "cannot be read"},
	} {
		if _, err := tlsfile.Load(c.files); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
