package conn

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/internal/tlsfile"
	"github.com/headgate/headgate/store"
)

func TestParseURL(t *testing.T) {
	cases := []struct {
		url, network, addr, user, password string
		db                                 int
		tls                                bool
	}{
		{"redis://127.0.0.1:6380/3", "tcp", "127.0.0.1:6380", "", "", 3, false},
		{"redis://cache", "tcp", "cache:6379", "", "", 0, false},
		{"redis://cache/", "tcp", "cache:6379", "", "", 0, false},
		{"redis://:secret@cache:1", "tcp", "cache:1", "", "secret", 0, false},
		{"redis://app:p%40ss%2Fw%3Aord@cache:1/0", "tcp", "cache:1", "app", "p@ss/w:ord", 0, false},
		{"redis://[::1]:6379/15", "tcp", "[::1]:6379", "", "", 15, false},
		{"rediss://app:x@cache.example:6390/2", "tcp", "cache.example:6390", "app", "x", 2, true},
		{"unix:///run/redis.sock", "unix", "/run/redis.sock", "", "", 0, false},
		{"unix://app:x@/run/redis.sock?db=4", "unix", "/run/redis.sock", "app", "x", 4, false},
	}
	for _, c := range cases {
		o, err := ParseURL(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if o.Network != c.network || o.Addr != c.addr || o.Username != c.user || o.Password != c.password || o.DB != c.db || (o.TLS != nil) != c.tls {
			t.Errorf("%s: got %s %s %q %q %d", c.url, o.Network, o.Addr, o.Username, o.Password, o.DB)
		}
		if o.TLS != nil && o.TLS.ServerName != "cache.example" {
			t.Errorf("%s: server name %q", c.url, o.TLS.ServerName)
		}
	}
}

// Who answers peeks of operators is said in one place, for all kinds of address.
func TestParseURLOfReplicas(t *testing.T) {
	for url, want := range map[string]string{
		"redis://a":                                      "<nil>",
		"redis://a?peeks=primary":                        "<nil>",
		"redis://a?peeks=replicas":                       "&{[]}",
		"rediss://a?peeks=r1,[::1]:7":                    "&{[r1:6379 [::1]:7]}",
		"unix:///run/redis.sock?peeks=replicas":          "&{[]}",
		"redis+sentinel://a,b?master=m&peeks=replicas":   "&{[]}",
		"redis+cluster://a,b?peeks=replicas&prefix=shop": "&{[]}",
	} {
		o, err := ParseURL(url)
		if err == nil {
			o, err = o.WithDefaults()
		}
		if got := fmt.Sprint(o.Replicas); err != nil || got != want {
			t.Errorf("%s: got %s and %v, want %s", url, got, err, want)
		}
	}
	for _, url := range []string{
		"redis://a?peeks=", "redis://a?peeks=replica", "redis://a?peeks=replicas&peeks=primary", "redis://a?peeks=r1:99999", "redis://a?peeks=r1,,r2",
		"redis://a?peeks=r1" + strings.Repeat(",r1", MaxAddrs), "redis+cluster://a?peeks=r1:6379", "redis+sentinel://a?master=m&peeks=r1:6379",
	} {
		o, err := ParseURL(url)
		if err == nil {
			_, err = o.WithDefaults()
		}
		if err == nil || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%.60s: %v", url, err)
		}
	}
}

func TestParseURLOfSeveralHosts(t *testing.T) {
	cases := []struct{ url, want string }{
		{"redis+cluster://a", "Cluster[a:6379]"},
		{"redis+cluster://app:x@a:1,b,[::1]:3", "Cluster[a:1 b:6379 [::1]:3] app:x"},
		{"redis+cluster://[::1],[::2]:4/0", "Cluster[[::1]:6379 [::2]:4]"},
		{"rediss+cluster://:x@a,b/", "Cluster[a:6379 b:6379] :x tls"},
		{"redis+sentinel://a?master=m", "Sentinel[a:26379] m 0"},
		{"redis+sentinel://app:x@a:1,b/3?master=m%20n&sentinel_user=u&sentinel_password=p%26q", "Sentinel[a:1 b:26379] m n 3 app:x u:p&q"},
		{"rediss+sentinel://a,b?master=m", "Sentinel[a:26379 b:26379] m 0 tls sentinel_tls"},
		{"rediss+sentinel://a,b?master=m&sentinel_tls=false", "Sentinel[a:26379 b:26379] m 0 tls"},
		{"redis+sentinel://a,b?master=m&sentinel_tls=true", "Sentinel[a:26379 b:26379] m 0 sentinel_tls"},
		{"redis+cluster://a?prefix=shop:", "Cluster[a:6379] prefix shop:"},
		{"redis+sentinel://a?master=m&prefix=x/y-z_0.:", "Sentinel[a:26379] m 0 prefix x/y-z_0.:"},
	}
	for _, c := range cases {
		o, err := ParseURL(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		got := fmt.Sprintf("Cluster%v", o.Cluster)
		if o.Sentinel != nil {
			got = fmt.Sprintf("Sentinel%v %s %d", o.Sentinel.Addrs, o.Sentinel.Master, o.DB)
		}
		if o.Username+o.Password != "" {
			got += " " + o.Username + ":" + o.Password
		}
		if o.TLS != nil {
			got += " tls"
		}
		if o.Sentinel != nil && o.Sentinel.Username+o.Sentinel.Password != "" {
			got += " " + o.Sentinel.Username + ":" + o.Sentinel.Password
		}
		if o.Sentinel != nil && o.Sentinel.TLS != nil {
			got += " sentinel_tls"
		}
		if o.Prefix != "" {
			got += " prefix " + o.Prefix
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.url, got, c.want)
		}
		if _, err := o.WithDefaults(); err != nil {
			t.Errorf("%s: %v", c.url, err)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	for _, text := range []string{
		"redis://a,b", "redis+cluster://a:1:secret", "redis+cluster://[a", "redis+cluster://a b", "redis+cluster://", "redis+cluster://a,,b", "redis+cluster://a:secret,b", "redis+cluster://:secret@a/1", "redis+cluster://a?db=secret",
		"redis+sentinel://a", "redis+sentinel://a?master=", "redis+sentinel://a/x?master=m", "redis+sentinel://a?master=m&sentinel_tls=secret",
		"redis+sentinel://a?master=m&password=secret", "redis+sentinel://?master=m", "redis+other://secret", "http+cluster://a", "redis+://a",
		"redis+cluster://a" + strings.Repeat(",a", MaxAddrs), "redis+sentinel://a?master=m&sentinel_password=%zzsecret",
		"", "redis", "redis:", "redis:secret", "redis://", "redis:///0", "redis://:secret@", "http://u:secret@host", "host:6379",
		"redis://u:secret@host:0", "redis://u:secret@host:99999", "redis://u:secret@host:port", "redis://u:secret@host/one",
		"redis://u:secret@host/-1", "redis://u:secret@host/0/1", "redis://u:secret@host?db=1", "redis://u:sec%zzret@host", "redis://u:secret@ho st",
		"redis://u:secret@host/99999999999999999999", "redis://u:secret#@host", "redis://u:secret@host#x",
		"redis://h?ca=/secret", "redis://h?server_name=secret", "rediss://h?ca=", "rediss://h?cert=/secret", "rediss://h?key=/secret", "rediss://h?min_tls=secret",
		"rediss://h?ca=/secret&ca=/secret", "redis://h?password_file=secret", "redis://u:secret@h?password_file=/p", "unix:///s?ca=/secret", "rediss://h?CA=/secret",
		"redis://h?prefix={secret}", "redis://h?prefix=secret*", "redis://h?prefix=a%20secret", "redis://h?prefix=secret%0a", "redis://h?prefix=a&prefix=secret",
		"redis://h?prefix=" + strings.Repeat("secret", MaxPrefix), "redis://h?sentinel_ca=/secret", "redis+sentinel://a?master=m&sentinel_ca=/secret",
		"redis+sentinel://a?master=m&ca=/secret", "redis+sentinel://a?master=m&sentinel_tls=true&ca=/secret", "rediss+sentinel://a?master=m&sentinel_tls=false&sentinel_ca=/secret",
		"redis+sentinel://a?master=m&sentinel_password=secret&sentinel_password_file=/p", "redis+sentinel://a?master=m&master=secret",
		"unix://", "unix:///", "unix://relative/path", "unix:///s?db=x", "unix:///s?DB=1", "unix:///s?db=%zz", "memory://",
	} {
		_, err := ParseURL(text)
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		if strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What is said of TLS for the servers is for the sentinels too, unless they have their own.
func TestParseURLOfTLS(t *testing.T) {
	const query = "?master=m&ca=/ca&cert=/cert&key=/key&server_name=redis.internal&min_tls=1.3"
	servers := credentials.Files{Files: tlsfile.Files{CA: "/ca", Cert: "/cert", Key: "/key"}, ServerName: "redis.internal", MinVersion: tls.VersionTLS13}
	for _, c := range []struct {
		more string
		want credentials.Files
	}{
		{"", servers},
		{"&sentinel_ca=/other", credentials.Files{Files: tlsfile.Files{CA: "/other", Cert: "/cert", Key: "/key"}, ServerName: "redis.internal", MinVersion: tls.VersionTLS13}},
		{"&sentinel_cert=/c&sentinel_key=/k&sentinel_server_name=s&sentinel_min_tls=1.2", credentials.Files{Files: tlsfile.Files{CA: "/ca", Cert: "/c", Key: "/k"}, ServerName: "s", MinVersion: tls.VersionTLS12}},
	} {
		o, err := ParseURL("rediss+sentinel://a,b" + query + c.more)
		if err != nil {
			t.Errorf("%s: %v", c.more, err)
			continue
		}
		if o.files != servers || o.Sentinel.files != c.want {
			t.Errorf("%s: servers %+v, sentinels %+v", c.more, o.files, o.Sentinel.files)
		}
		if o.TLS.ServerName != "redis.internal" || o.TLS.MinVersion != tls.VersionTLS13 || o.Sentinel.TLS.ServerName != c.want.ServerName {
			t.Errorf("%s: TLS %+v, %+v", c.more, o.TLS, o.Sentinel.TLS)
		}
	}
}

// FuzzParseURL: whatever an address is, reading it ends with options or with an error
// that has a hint; options have a password or a file of it, and a prefix that may be.
func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{
		"redis://u:p@h:1/2?prefix=a:&password_file=/p", "rediss://h?ca=/c&cert=/d&key=/e&server_name=n&min_tls=1.3", "unix:///s?db=3&prefix=x",
		"rediss+sentinel://a:1,b/3?master=m&sentinel_user=u&sentinel_password=p&sentinel_ca=/c&sentinel_tls=true", "redis+cluster://[::1]:3,b?prefix=x", "redis://?%zz",
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

// Whatever stands around it, a password is in no error, and in no printed
// Options.
func TestPasswordIsNeverPrinted(t *testing.T) {
	const password = "hunter2hunter2"
	rapid.Check(t, func(t *rapid.T) {
		scheme := rapid.SampledFrom([]string{"redis://", "rediss://", "unix://", "redis:", "", "x://", "redis+cluster://", "redis+sentinel://"}).Draw(t, "scheme")
		rest := rapid.String().Draw(t, "rest")
		o, err := ParseURL(scheme + "user:" + password + rest)
		if err != nil && strings.Contains(err.Error(), password) {
			t.Fatalf("the error contains the password: %v", err)
		}
		if o.Password == "" {
			return
		}
		for _, text := range []string{fmt.Sprint(o), fmt.Sprintf("%+v", o), fmt.Sprintf("%#v", o), fmt.Sprintf("%v", &o)} {
			if strings.Contains(text, o.Password) && !strings.Contains(o.Addr+fmt.Sprint(o.Cluster), o.Password) {
				t.Fatalf("printed options contain the password: %s", text)
			}
		}
	})
}

func TestOptionsRefused(t *testing.T) {
	addrs := []string{"a:1"}
	for _, o := range []Options{
		{},
		{Addr: "a:1", Cluster: addrs},
		{Cluster: addrs, Sentinel: &Sentinel{Addrs: addrs, Master: "m"}},
		{Cluster: addrs, DB: 1},
		{Cluster: addrs, Prefix: "{hg}:"},
		{Cluster: addrs, Network: "unix"},
		{Cluster: []string{"a"}},
		{Cluster: make([]string, MaxAddrs+1)},
		{Sentinel: &Sentinel{Addrs: addrs}},
		{Sentinel: &Sentinel{Master: "m"}},
		{Sentinel: &Sentinel{Addrs: []string{"a"}, Master: "m"}},
		{Addr: "a:1", Network: "udp"},
		{Addr: "a:1", DB: -1},
		{Addr: "a:1", Prefix: strings.Repeat("x", MaxPrefix+1)},
		{Addr: "a:1", Budget: -1},
		{Addr: "a:1", MaxInFlight: DefaultMaxInFlight + 1},
	} {
		if _, err := o.WithDefaults(); err == nil {
			t.Errorf("%+v is accepted", o)
		} else if !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("no hint: %v", err)
		}
	}
}

func TestAddressHasNoCredentials(t *testing.T) {
	for url, want := range map[string]string{
		"redis://app:secret@host:1/2":     "redis://host:1/2",
		"rediss://:secret@host":           "rediss://host:6379/0",
		"unix://app:secret@/r.sock?db=3":  "unix:///r.sock?db=3",
		"unix:///r.sock":                  "unix:///r.sock",
		"redis://app:secret@[2001:db8::]": "redis://[2001:db8::]:6379/0",

		"redis+cluster://app:secret@a,b:2":                                        "redis+cluster://a:6379,b:2",
		"rediss+sentinel://:secret@a,b:2/1?master=m%20n&sentinel_password=secret": "rediss+sentinel://a:26379,b:2/1?master=m+n",
	} {
		o, err := ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		if o.String() != want {
			t.Errorf("%s prints as %s, want %s", url, o, want)
		}
	}
}
