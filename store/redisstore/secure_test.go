package redisstore

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// query is the query of an address: values by name.
func query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return "?" + values.Encode()
}

// write writes a file of the test and returns its path.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	rewrite(t, path, text)
	return path
}

// rewrite puts text in place of a file at once, as who rotates it does.
func rewrite(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// takesWork takes from many buckets, so that every server of a cluster is asked.
func takesWork(t *testing.T, s *Store) {
	t.Helper()
	l := limit.Must(limit.Spec{Quota: 10, Period: time.Hour})
	for i := range 64 {
		if r := takeOne(s, fmt.Sprint("key", i), l, 1); r.Err != nil || !r.Decision.Allowed {
			t.Fatalf("key %d: %+v", i, r)
		}
	}
}

// Redis that wants certificates of clients, with a private authority, passwords in files
// and a prefix, in all topologies. The sentinels have a password and a certificate of
// their own.
func TestCertificatesAndPasswordFiles(t *testing.T) {
	serverWord, sentinelWord := write(t, "server", "hunter2\n"), write(t, "sentinel", "hunter3")
	t.Run("single", func(t *testing.T) {
		certs := testserver.NewCertificates(t)
		certs.Mutual = true
		server := testserver.Redis(t, testserver.RedisConfig{TLS: true, Certificates: certs, Password: "hunter2"})
		cert, key := certs.Issue(t, testserver.Leaf{})
		s := openURL(t, server.URL()+query("ca", certs.CAFile, "cert", cert, "key", key, "password_file", serverWord, "prefix", "shop:"))
		takesWork(t, s)
		onlyUnder(t, s, "shop:")
		// A name that is not that of the address.
		takesWork(t, openURL(t, server.URL()+query("ca", certs.CAFile, "cert", cert, "key", key, "password_file", serverWord, "server_name", "localhost", "min_tls", "1.3")))
	})
	t.Run("sentinel", func(t *testing.T) {
		servers := testserver.Sentinel(t, testserver.SentinelConfig{TLS: true, Mutual: true, Password: "hunter2", SentinelPassword: "hunter3"})
		certs := servers.Certificates
		cert, key := certs.Issue(t, testserver.Leaf{})
		other, otherKey := certs.Issue(t, testserver.Leaf{CommonName: "for-sentinels"})
		takesWork(t, openURL(t, "rediss+sentinel://"+strings.Join(servers.Addrs(), ",")+"/0"+query(
			"master", servers.Name, "ca", certs.CAFile, "cert", cert, "key", key, "password_file", serverWord,
			"sentinel_password_file", sentinelWord, "sentinel_cert", other, "sentinel_key", otherKey, "sentinel_server_name", "localhost")))
	})
	t.Run("cluster", func(t *testing.T) {
		servers := testserver.Cluster(t, testserver.ClusterConfig{TLS: true, Mutual: true, Password: "hunter2", NoReplicas: true})
		cert, key := servers.Certificates.Issue(t, testserver.Leaf{})
		takesWork(t, openURL(t, "rediss+cluster://"+servers.Addrs()[0]+query(
			"ca", servers.Certificates.CAFile, "cert", cert, "key", key, "password_file", serverWord, "server_name", "localhost", "prefix", "shop:")))
	})
}

// onlyUnder checks that all keys of a server begin with prefix.
func onlyUnder(t *testing.T, s *Store, prefix string) {
	t.Helper()
	all, n := command(t, s, "DBSIZE"), command(t, s, "EVAL", "return #redis.call('KEYS', ARGV[1])", "0", prefix+"*")
	if n != all || n == "0" {
		t.Errorf("%s of %s keys begin with %s", n, all, prefix)
	}
}

// What is wrong with certificates and passwords is told with what to do about it, and
// never with the password.
func TestAccessRefused(t *testing.T) {
	certs, strangers := testserver.NewCertificates(t), testserver.NewCertificates(t)
	certs.Mutual = true
	cert, key := certs.Issue(t, testserver.Leaf{})
	old, oldKey := certs.Issue(t, testserver.Leaf{NotAfter: time.Now().Add(-time.Minute)})
	strange, strangeKey := strangers.Issue(t, testserver.Leaf{})
	server := testserver.Redis(t, testserver.RedisConfig{TLS: true, Certificates: certs, Password: "hunter2"})
	right, wrong := write(t, "right", "hunter2\n"), write(t, "wrong", "hunter4\n")
	for name, tt := range map[string]struct {
		query  string
		reason store.Reason // none: the server may hang up before it is heard
		text   string
	}{
		"wrong authority":     {query("ca", strangers.CAFile, "cert", cert, "key", key, "password_file", right), store.Denied, "ca=FILE"},
		"no authority":        {query("cert", cert, "key", key, "password_file", right), store.Denied, "ca=FILE"},
		"no certificate":      {query("ca", certs.CAFile, "password_file", right), store.NoReason, "certificate of this client"},
		"strange certificate": {query("ca", certs.CAFile, "cert", strange, "key", strangeKey, "password_file", right), store.NoReason, "certificate of this client"},
		"expired certificate": {query("ca", certs.CAFile, "cert", old, "key", oldKey, "password_file", right), store.NoReason, "certificate of this client"},
		"wrong name":          {query("ca", certs.CAFile, "cert", cert, "key", key, "server_name", "redis.example.com", "password_file", right), store.Denied, "server_name=NAME"},
		"wrong password":      {query("ca", certs.CAFile, "cert", cert, "key", key, "password_file", wrong), store.Denied, "wrong user or password"},
		"no password":         {query("ca", certs.CAFile, "cert", cert, "key", key), store.Denied, "password_file=PATH"},
	} {
		refusedAs(t, name, server.URL()+tt.query, tt.reason, tt.text)
	}
	expired := *certs
	expired.CertFile, expired.KeyFile = certs.Issue(t, testserver.Leaf{NotAfter: time.Now().Add(-time.Minute)})
	expired.Mutual = false
	// It gets that later: nobody could ask whether it is up.
	stale := testserver.Redis(t, testserver.RedisConfig{TLS: true, Certificates: certs, Password: "hunter2"})
	stale.MustDo("CONFIG", "SET", "tls-cert-file", expired.CertFile, "tls-key-file", expired.KeyFile)
	refusedAs(t, "expired server", stale.URL()+query("ca", certs.CAFile, "cert", cert, "key", key, "password_file", right), store.Denied, "server's certificate is not valid now")
	older := testserver.Redis(t, testserver.RedisConfig{TLS: true, Certificates: certs, Args: []string{"--tls-protocols", "TLSv1.2"}})
	refusedAs(t, "old TLS", older.URL()+query("ca", certs.CAFile, "cert", cert, "key", key, "min_tls", "1.3"), store.Denied, "min_tls")
}

// refusedAs checks why a take fails.
func refusedAs(t *testing.T, name, address string, reason store.Reason, text string) {
	t.Helper()
	o, err := ParseURL(address)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	s := open(t, o)
	r := takeOne(s, "key", limit.Must(limit.Spec{Quota: 1, Period: time.Hour}), 1)
	switch {
	case r.Err == nil:
		t.Errorf("%s: allowed", name)
	case reason != store.NoReason && store.ReasonOf(r.Err) != reason || !strings.Contains(r.Err.Error(), text):
		t.Errorf("%s: %v: %v, want %v and %q", name, store.ReasonOf(r.Err), r.Err, reason, text)
	case strings.Contains(r.Err.Error(), "hunter"):
		t.Errorf("%s: the password is in %v", name, r.Err)
	}
}

// Files that are missing or hold something else are errors of New, which name them.
func TestBadFiles(t *testing.T) {
	certs := testserver.NewCertificates(t)
	empty, lines := write(t, "empty", "\n"), write(t, "lines", "hunter2\nhunter3\n")
	for name, address := range map[string]string{
		"no file":        "redis://h?password_file=/nowhere/word",
		"directory":      "redis://h?password_file=/",
		"empty":          "redis://h" + query("password_file", empty),
		"lines":          "redis://h" + query("password_file", lines),
		"no authority":   "rediss://h?ca=/nowhere/ca.pem",
		"no PEM":         "rediss://h" + query("ca", lines),
		"wrong pair":     "rediss://h" + query("cert", certs.CertFile, "key", certs.CertFile),
		"sentinel's":     "redis+sentinel://h?master=m&sentinel_password_file=/nowhere/word",
		"sentinel's TLS": "redis+sentinel://h?master=m&sentinel_tls=true&sentinel_ca=/nowhere/ca.pem",
	} {
		o, err := ParseURL(address)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s, err := New(o)
		if err == nil {
			s.Close()
			t.Errorf("%s: taken", name)
		} else if text := err.Error(); !strings.Contains(text, "; hint: ") || !strings.Contains(text, "/") || strings.Contains(text, "hunter") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Under load, the password and the certificates of both sides are exchanged. No decision
// fails while connections stay. Then they break, and the new ones show and trust what is
// new: the old password and the old authority are gone by then.
func TestRotationUnderLoad(t *testing.T) {
	before, after := testserver.NewCertificates(t), testserver.NewCertificates(t)
	before.Mutual = true
	server := testserver.Redis(t, testserver.RedisConfig{TLS: true, Certificates: before, Users: []string{
		"user default on nopass ~* &* +@all", "user app on >hunter2 ~hg:* +@all",
	}})
	cert1, key1 := before.Issue(t, testserver.Leaf{})
	cert2, key2 := after.Issue(t, testserver.Leaf{})
	word, ca := write(t, "word", "hunter2\n"), write(t, "ca", read(t, before.CAFile))
	cert, key := write(t, "cert", read(t, cert1)), write(t, "key", read(t, key1))
	o, err := ParseURL("rediss://app@" + server.Addr + query("ca", ca, "cert", cert, "key", key, "password_file", word))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, o)
	load := underLoad(t, s)
	load.passes(t, 100)

	server.MustDo("ACL", "SETUSER", "app", "resetpass", ">hunter3")
	rewrite(t, word, "hunter3\n")
	rewrite(t, ca, read(t, after.CAFile))
	rewrite(t, cert, read(t, cert2)) // for a moment it has the wrong key
	rewrite(t, key, read(t, key2))
	load.passes(t, 100)
	if n := load.failed.Load(); n != 0 {
		t.Fatalf("%d decisions failed while files changed, the first with %v", n, load.first.Load())
	}
	server.MustDo("CONFIG", "SET", "tls-cert-file", after.CertFile, "tls-key-file", after.KeyFile, "tls-ca-cert-file", after.CAFile)
	*before = *after // for the questions of the test
	before.Mutual = true
	server.MustDo("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	was := load.failed.Load()
	load.passes(t, 100)
	eventually.True(t, "a decision by a new connection", func() bool { return takeOne(s, "other", load.limit, 1).Err == nil })
	if text, _ := load.first.Load().(string); strings.Contains(text, "hunter") {
		t.Errorf("a password is in %s", text)
	}
	t.Logf("%d decisions, %d of them failed when the connections were cut", load.passed.Load(), load.failed.Load()-was)
}

// loading takes all the time.
type loading struct {
	limit          *limit.Limit
	passed, failed atomic.Int64
	first          atomic.Value // the text of the first error
}

// underLoad takes in the background until the test ends.
func underLoad(t *testing.T, s *Store) *loading {
	load := &loading{limit: limit.Must(limit.Spec{Quota: 1 << 40, Period: time.Hour})}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				if r := takeOne(s, fmt.Sprint("load", i), load.limit, 1); r.Err != nil {
					load.first.CompareAndSwap(nil, r.Err.Error())
					load.failed.Add(1)
					time.Sleep(time.Millisecond) // what fails does so at once
				} else {
					load.passed.Add(1)
				}
			}
		})
	}
	t.Cleanup(func() { cancel(); group.Wait() })
	return load
}

// passes waits until so many more decisions were made.
func (l *loading) passes(t *testing.T, n int64) {
	t.Helper()
	begin := l.passed.Load()
	eventually.True(t, "decisions under load", func() bool { return l.passed.Load() >= begin+n })
}
