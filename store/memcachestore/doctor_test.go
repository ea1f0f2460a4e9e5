package memcachestore

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
)

func TestDiagnose(t *testing.T) {
	server := testserver.Memcached(t, testserver.MemcachedConfig{})
	noCAS := testserver.Memcached(t, testserver.MemcachedConfig{Args: []string{"-C"}})
	frozen := testserver.Memcached(t, testserver.MemcachedConfig{})
	frozen.Stop()
	defer frozen.Continue()
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("app:hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	locked := testserver.Memcached(t, testserver.MemcachedConfig{Args: []string{"-Y", file}})
	free := fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t))
	for name, tt := range map[string]struct {
		o                   Options
		check, status, text string
	}{
		"good":          {Options{Servers: []string{server.Addr}}, "swap", store.CheckOK, "cas work"},
		"nothing lost":  {Options{Servers: []string{server.Addr}}, "eviction", store.CheckOK, "nothing was dropped"},
		"latency":       {Options{Servers: []string{server.Addr}}, "latency", store.CheckOK, "p50"},
		"no clock":      {Options{Servers: []string{server.Addr}}, "clock", store.CheckWarning, "NTP"},
		"no cas":        {Options{Servers: []string{noCAS.Addr}}, "swap", store.CheckProblem, "-C"},
		"nobody":        {Options{Servers: []string{free}}, "connect", store.CheckProblem, "is memcached running there?"},
		"unknown host":  {Options{Servers: []string{"no-such-host.invalid:1"}}, "resolve", store.CheckProblem, "the host name is unknown"},
		"frozen":        {Options{Servers: []string{frozen.Addr}, DialTimeout: 50 * time.Millisecond}, "connect", store.CheckProblem, "no answer in time"},
		"one of two":    {Options{Servers: []string{server.Addr, free}}, "connect", store.CheckProblem, free},
		"no user":       {Options{Servers: []string{locked.Addr}}, "connect", store.CheckProblem, "give the user and the password"},
		"wrong user":    {Options{Servers: []string{locked.Addr}, Username: "app", Password: "hunter2x"}, "connect", store.CheckProblem, "give the user and the password"},
		"right user":    {Options{Servers: []string{locked.Addr}, Username: "app", Password: "hunter2"}, "swap", store.CheckOK, ""},
		"wrong options": {Options{Servers: []string{server.Addr}, Prefix: "a b"}, "options", store.CheckProblem, "prefix"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.o.DialTimeout == 0 {
				tt.o.DialTimeout = patient
			}
			tt.o.Budget = patient
			r := Diagnose(t.Context(), tt.o)
			if strings.Contains(fmt.Sprintf("%+v", r), "hunter2") {
				t.Errorf("the password is in %+v", r)
			}
			if r.OK() != (tt.status != store.CheckProblem) {
				t.Errorf("OK is %t", r.OK())
			}
			for _, c := range r.Checks {
				if c.Name == tt.check && c.Status == tt.status && strings.Contains(c.Server+c.Found+c.Hint, tt.text) {
					return
				}
			}
			t.Errorf("no %s %q about %s in %+v", tt.status, tt.text, tt.check, r.Checks)
		})
	}
	if answer, err := server.Exchange("get " + DefaultPrefix + "doctor\r\n"); answer != "END" {
		t.Errorf("the doctor left %q, %v", answer, err)
	}
}

// TestDiagnoseEviction fills a small server until it drops what is oldest.
func TestDiagnoseEviction(t *testing.T) {
	server := testserver.Memcached(t, testserver.MemcachedConfig{Args: []string{"-m", "1", "-I", "512k"}})
	value := strings.Repeat("x", 100_000)
	for i := range 100 {
		if _, err := server.Exchange(fmt.Sprintf("set key%d 0 0 %d\r\n%s\r\n", i, len(value), value)); err != nil {
			t.Fatal(err)
		}
	}
	r := Diagnose(t.Context(), Options{Servers: []string{server.Addr}, DialTimeout: patient, Budget: patient})
	for _, c := range r.Checks {
		if c.Name == "eviction" && c.Status == store.CheckWarning && strings.Contains(c.Hint, "begins anew") {
			return
		}
	}
	t.Errorf("got %+v", r.Checks)
}
