package memcachestore

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
)

// TestFewConnections: calls that a server gives no connection wait for those that there are,
// and are all decided, each once.
func TestFewConnections(t *testing.T) {
	certs := testserver.NewCertificates(t)
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("app:hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config         testserver.MemcachedConfig
		query          string
		user, password string
	}{
		"plain":    {},
		"TLS":      {config: testserver.MemcachedConfig{TLS: certs}, query: query("tls", "true", "ca", certs.CAFile)},
		"password": {config: testserver.MemcachedConfig{Args: []string{"-Y", users}}, user: "app", password: "hunter2"},
		"unix":     {config: testserver.MemcachedConfig{Unix: true}},
	} {
		t.Run(name, func(t *testing.T) {
			// A memcached of 64 connections has some 40 for clients.
			const most, calls = 64, 96
			c.config.Args = append(c.config.Args, "-c", strconv.Itoa(most))
			server := testserver.Memcached(t, c.config)
			o, err := ParseURL(server.URL() + c.query)
			if err != nil {
				t.Fatal(err)
			}
			o.Username, o.Password = c.user, c.password
			o.Budget, o.DialTimeout, o.MaxConns = patient, patient, calls
			// Nobody gives a connection back before all have asked for one.
			all := make(chan struct{})
			o.Delay = func() time.Duration { <-all; return 0 }
			s := open(t, o)
			var group sync.WaitGroup
			for range calls {
				group.Go(func() {
					if r := takeOne(s, "k", yearly, 1); r.Err != nil || !r.Allowed {
						t.Errorf("got %+v", r)
					}
				})
			}
			eventually.True(t, "all have asked for a connection", func() bool { return s.Stats().Servers[0].Dials >= calls })
			close(all)
			group.Wait()
			if r := takeOne(s, "k", yearly, 0); r.Remaining != int64(yearly.Quota)-calls {
				t.Errorf("%d left of %d after %d", r.Remaining, yearly.Quota, calls)
			}
			if stats := s.Stats().Servers[0]; stats.NotTaken == 0 || stats.Failures > 0 {
				t.Errorf("%+v, want refused connections and no failures", stats)
			}
			s.Close()
			o.Delay = nil
			eventually.True(t, "the doctor tells of what was refused", func() bool { return found(Diagnose(t.Context(), o), "connections") == store.CheckWarning })
		})
	}
}

// found returns how a check ended; "" if it was not made.
func found(r store.Report, name string) string {
	for _, check := range r.Checks {
		if check.Name == name {
			return check.Status
		}
	}
	return ""
}
