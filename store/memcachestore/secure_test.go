package memcachestore

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
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

// write puts a file of the test there, whole.
func write(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

func openURL(t testing.TB, address string) *Store {
	t.Helper()
	o, err := ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, o)
}

var hourly = limit.Must(limit.Spec{Quota: 1 << 30, Period: time.Hour})

// A memcached that wants certificates and passwords is given what files hold, and what
// they hold anew when it has changed. What is wrong is told with what to do about it.
func TestCertificatesAndPasswordFile(t *testing.T) {
	dir := t.TempDir()
	certs, strangers := testserver.NewCertificates(t), testserver.NewCertificates(t)
	certs.Mutual = true
	users := write(t, filepath.Join(dir, "users"), "app:hunter2\n")
	server := testserver.Memcached(t, testserver.MemcachedConfig{TLS: certs, Args: []string{"-Y", users}})
	cert, key := certs.Issue(t, testserver.Leaf{CommonName: "client"})
	word := write(t, filepath.Join(dir, "word"), "hunter2\n")
	wrong := write(t, filepath.Join(dir, "wrong"), "hunter4\n")
	at := func(host string, pairs ...string) string {
		return "memcached://" + host + server.Addr + query(append(pairs, "tls", "true")...)
	}
	address := at("app@", "ca", certs.CAFile, "cert", cert, "key", key, "password_file", word, "prefix", "shop:")
	s := openURL(t, address)
	if r := takeOne(s, "key", hourly, 1); r.Err != nil {
		t.Fatal(r.Err)
	}
	for name, tt := range map[string]struct{ address, text string }{
		"wrong authority": {at("", "ca", strangers.CAFile, "cert", cert, "key", key), "ca=FILE"},
		"no certificate":  {at("", "ca", certs.CAFile), "certificate of this client"},
		"wrong name":      {at("", "ca", certs.CAFile, "cert", cert, "key", key, "server_name", "m.example.com"), "server_name=NAME"},
		"wrong password":  {at("app@", "ca", certs.CAFile, "cert", cert, "key", key, "password_file", wrong), "password_file=PATH"},
		"no TLS":          {"memcached://" + server.Addr, "both sides speak TLS"},
	} {
		r := takeOne(openURL(t, tt.address), "key", hourly, 1)
		if r.Err == nil || !strings.Contains(r.Err.Error(), tt.text) || strings.Contains(r.Err.Error(), "hunter") {
			t.Errorf("%s: %v, want %q", name, r.Err, tt.text)
		}
	}
	o, err := ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	o.DialTimeout, o.Budget = patient, patient
	report := fmt.Sprint(Diagnose(t.Context(), o).Checks)
	for _, want := range []string{"TLS 1.", "CN=client, valid until", "cas work"} {
		if !strings.Contains(report, want) {
			t.Errorf("nothing of %q in %s", want, report)
		}
	}

	// Another password and other certificates on both sides.
	write(t, users, "app:hunter3\n")
	write(t, word, "hunter3\n")
	next := testserver.NewCertificates(t)
	next.Mutual = true
	nextCert, nextKey := next.Issue(t, testserver.Leaf{})
	for _, move := range [][2]string{{next.CAFile, certs.CAFile}, {nextCert, cert}, {nextKey, key}} {
		text, err := os.ReadFile(move[0])
		if err != nil {
			t.Fatal(err)
		}
		write(t, move[1], string(text))
	}
	*certs = *next
	server.Restart()
	eventually.True(t, "a take by what is new", func() bool { return takeOne(s, "key", hourly, 1).Err == nil })
}

// Two prefixes of one memcached do not meet.
func TestPrefixesDoNotMeet(t *testing.T) {
	server := testserver.Memcached(t, testserver.MemcachedConfig{})
	one := limit.Must(limit.Spec{Quota: 1, Period: time.Hour})
	for _, prefix := range []string{"", "?prefix=a:", "?prefix=b:"} {
		if r := takeOne(openURL(t, server.URL()+prefix), "key", one, 1); r.Err != nil || !r.Decision.Allowed {
			t.Errorf("%q: %+v", prefix, r)
		}
	}
}

func TestAccessInURL(t *testing.T) {
	for _, bad := range []string{
		"memcached://h?tls=yes", "memcached://h?ca=/c", "memcached://h?tls=true&cert=/c", "memcached://h?tls=true&key=/c", "memcached://h?tls=true&min_tls=1.1",
		"memcached://u:hunter2@h?password_file=/p", "memcached://h?password_file=/p", "memcached://u@h?password_file=hunter2", "memcached:///m.sock?tls=true",
		"memcached://h?prefix=a{b}", "memcached://h?prefix=a%20b", "memcached://h?prefix=" + strings.Repeat("x", store.MaxPrefix+1), "memcached://h?tls=true&ca=",
		"memcached://h?tls=true&server_name=a/b", "memcached://h?tls=true&ca=/c&ca=/d", "memcached://h?sentinel_ca=/c",
	} {
		o, err := ParseURL(bad)
		if err == nil {
			t.Errorf("%s was taken: %v", bad, o)
		} else if !strings.Contains(err.Error(), "hint: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := New(Options{Servers: []string{"h:1"}, Username: "u", PasswordFile: "/nowhere/word"}); err == nil || !strings.Contains(err.Error(), "/nowhere/word") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// FuzzParseURL: whatever an address is, reading it ends with options or with an error
// that has a hint; options have a password or a file of it, and a prefix that may be.
func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{
		"memcached://u:p@h:1,[::1]?prefix=a:", "memcached://u@h?tls=true&ca=/c&cert=/d&key=/e&server_name=n&min_tls=1.3&password_file=/p", "memcached:///s?prefix=x", "memcached://h?tls=no&%zz",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		o, err := ParseURL(address)
		switch {
		case err != nil && !strings.Contains(err.Error(), "hint: "):
			t.Errorf("%q: %v", address, err)
		case err != nil:
		case o.Password != "" && o.PasswordFile != "", store.CheckPrefix(o.Prefix) != nil, o.TLS == nil && !o.files.IsZero():
			t.Errorf("%q: %#v", address, o)
		}
	})
}
