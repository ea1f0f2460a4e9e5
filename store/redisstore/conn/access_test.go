package conn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// TestSentinelsHaveTheirOwn: a sentinel is shown nothing that is for the servers, and its
// certificate is checked by its own authority; each is for the host of its own address.
func TestSentinelsHaveTheirOwn(t *testing.T) {
	servers, sentinels := testserver.NewCertificates(t), testserver.NewCertificates(t)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("of the servers"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := ParseURL("rediss+sentinel://app@a:1/3?master=m&sentinel_password=own&password_file=" + password + "&server_name=servers&sentinel_server_name=sentinels&ca=" + servers.CAFile + "&sentinel_ca=" + sentinels.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	if o, err = o.WithDefaults(); err != nil {
		t.Fatal(err)
	}
	one, err1 := o.At("b:2").Fresh()
	other, err2 := o.SentinelAt("a:1").Fresh()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if one.Username != "app" || one.Password != "of the servers" || one.DB != 3 || one.TLS.ServerName != "servers" {
		t.Errorf("a server: %q %q %d %q", one.Username, one.Password, one.DB, one.TLS.ServerName)
	}
	if other.Username != "" || other.Password != "own" || other.DB != 0 || other.TLS.ServerName != "sentinels" {
		t.Errorf("a sentinel: %q %q %d %q", other.Username, other.Password, other.DB, other.TLS.ServerName)
	}
	if !one.TLS.RootCAs.Equal(servers.Client().RootCAs) || !other.TLS.RootCAs.Equal(sentinels.Client().RootCAs) {
		t.Error("one is checked by the authority of the other")
	}
	single, err := ParseURL("rediss://cache.example?ca=" + servers.CAFile)
	if err == nil {
		single, err = single.WithDefaults()
	}
	if err != nil {
		t.Fatal(err)
	}
	if fresh, err := single.Fresh(); err != nil || fresh.TLS.ServerName != "cache.example" {
		t.Errorf("%v, %+v", err, fresh)
	}
}

// TestSecrets: all passwords are known, so that no error shows one.
func TestSecrets(t *testing.T) {
	o := Options{Password: "one", Sentinel: &Sentinel{Password: "two"}}
	if got := o.Secrets(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("%q", got)
	}
	if got := (&Options{Sentinel: &Sentinel{}}).Secrets(); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// TestBoundsOfOptions: what is at a bound is taken, and what is one beyond it is not.
func TestBoundsOfOptions(t *testing.T) {
	addrs := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("h%d:1", i))
		}
		return list
	}
	for what, c := range map[string]struct{ good, bad Options }{
		"nodes":     {Options{Cluster: addrs(MaxAddrs)}, Options{Cluster: addrs(MaxAddrs + 1)}},
		"sentinels": {Options{Sentinel: &Sentinel{Master: "m", Addrs: addrs(MaxAddrs)}}, Options{Sentinel: &Sentinel{Master: "m", Addrs: addrs(MaxAddrs + 1)}}},
		"buckets":   {Options{Addr: "a:1", Remembered: MaxRemembered}, Options{Addr: "a:1", Remembered: MaxRemembered + 1}},
		"calls":     {Options{Addr: "a:1", MaxInFlight: DefaultMaxInFlight}, Options{Addr: "a:1", MaxInFlight: -1}},
		"a time":    {Options{Addr: "a:1", DialTimeout: 1}, Options{Addr: "a:1", DialTimeout: -1}},
	} {
		if _, err := c.good.WithDefaults(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := c.bad.WithDefaults(); err == nil || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%s beyond the bound: %v", what, err)
		}
	}
	if _, err := ParseURL("redis://h/2147483647"); err != nil {
		t.Error(err)
	}
	if o, err := ParseURL("redis://h/2147483648"); err == nil {
		t.Errorf("database %d", o.DB)
	}
	for budget, want := range map[time.Duration]time.Duration{
		0: time.Second, 100 * time.Millisecond: time.Second, 200 * time.Millisecond: 1200 * time.Millisecond,
		time.Second: 5 * time.Second, 5 * time.Second: 5 * time.Second, time.Minute: time.Minute,
	} {
		if o, err := (Options{Addr: "a:1", Budget: budget}).WithDefaults(); err != nil || o.DialTimeout != want || o.firstWait != max(time.Second, budget) {
			t.Errorf("a budget of %v has %v to connect, and a start waits for %v, %v", budget, o.DialTimeout, o.firstWait, err)
		}
	}
	if o, err := (Options{Addr: "a:1", Budget: time.Second, DialTimeout: 2 * time.Second}).WithDefaults(); err != nil || o.DialTimeout != 2*time.Second || o.firstWait != 2*time.Second {
		t.Errorf("%v to connect, and a start waits for %v, %v", o.DialTimeout, o.firstWait, err)
	}
}

// TestOnePassword: a password is given itself or by its file, for sentinels too.
func TestOnePassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{
		{Addr: "a:1", Password: "other", PasswordFile: file},
		{Sentinel: &Sentinel{Master: "m", Addrs: []string{"a:1"}, Password: "other", PasswordFile: file}},
	} {
		if _, err := o.WithDefaults(); !errors.Is(err, errTwoPasswords) {
			t.Errorf("%v: %v", o, err)
		}
	}
}
