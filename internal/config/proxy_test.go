package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/yamlfile"
)

// parseProxy is parse for `headgate proxy`.
func parseProxy(t *testing.T, args ...string) (Proxy, error) {
	t.Helper()
	var c struct {
		Config string `placeholder:"FILE"`
		Proxy  `embed:""`
	}
	parser, err := kong.New(&c, kong.DefaultEnvars(EnvPrefix), kong.Resolvers(&File{}), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	var inFile *yamlfile.Error
	if errors.As(err, &inFile) {
		err = inFile
	}
	return c.Proxy, err
}

func TestProxyDefaults(t *testing.T) {
	s, err := parseProxy(t, "--to=http://localhost:9000", "--rules=r.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if s.HTTPAddr != ":8080" || s.BackendTimeout != time.Minute || s.MaxHeader != 64<<10 || s.MaxBody != 0 || s.RewriteHost {
		t.Errorf("%+v", s)
	}
	shared, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	if shared.Rules = "r.yaml"; s.Settings != shared.Settings {
		t.Errorf("settings of serve and proxy differ:\n%+v\n%+v", s.Settings, shared.Settings)
	}
	if to, err := s.Target(); err != nil || to.Host != "localhost:9000" {
		t.Errorf("%v, %v", to, err)
	}
}

// TestProxySources: a setting that is required may come from the file.
func TestProxySources(t *testing.T) {
	file := settingsFile(t, "to: http://localhost:9000\nrules: r.yaml\nmax-body: 10MiB\ntrusted-proxies: 10.0.0.0/8, 192.0.2.1\n")
	t.Setenv("HEADGATE_BACKEND_TIMEOUT", "3s")
	s, err := parseProxy(t, "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := s.Trusted()
	if err != nil || len(trusted) != 2 || s.MaxBody != 10<<20 || s.BackendTimeout != 3*time.Second {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestBadProxySettings(t *testing.T) {
	const good = "--to=http://h --rules=r "
	for _, tt := range []struct{ args, want string }{
		{"--rules=r", "--to: no backend is named; hint: --to http://localhost:9000"},
		{"--to=http://h", "--rules: none; hint: a proxy without rules limits nothing"},
		{"--to=http://h --snapshot-keys=k", "--snapshot-keys: there is nobody whose snapshots they could verify"},
		{"--rules=r --to=localhost:9000", "--to: not a URL of http or https; hint:"},
		{"--rules=r --to=http://u:hunter2@h", "--to: a user in the URL; hint:"},
		{"--rules=r --to=http://h?key=hunter2", "--to: a query or a fragment in the URL; hint:"},
		{"--rules=r --to=http://h:hunter2%zz", "--to: not a URL"},
		{good + "--tls-cert=x", "--tls-cert and --tls-key: one without the other; hint:"},
		{good + "--max-header=1KiB", "--max-header: 1024 bytes are out of range; hint: from 4KiB to 1MiB"},
		{good + "--max-body=1MB", `"1MB" is not a size; hint:`},
		{good + "--max-body=-1", "is not a size; hint:"},
		{good + "--backend-timeout=25h", "--backend-timeout: 25h0m0s is out of range"},
		{good + "--trusted-proxies=0.0.0.0/0", "--trusted-proxies: the whole Internet; hint:"},
		{good + "--http-addr=8080", `--http-addr: address "8080" is not host:port`},
		{good + "--admin-addr=:1", "--admin-tokens: nobody could ask; hint:"},
		{good + "--dashboard-addr=:1", "--admin-tokens: nobody could log in to the dashboard; hint:"},
		{good + "--admin-tokens=t --admin-hash-key=k", "--admin-tokens, --admin-hash-key: nothing comes of it without --admin-addr, because neither"},
		{good + "--prometheus-url=http://h:1", "--prometheus-url: nothing comes of it without --admin-addr, because neither"},
		{good + "--admin-addr=9090 --admin-tokens=t", `--admin-addr: address "9090" is not host:port`},
		{good + "--dashboard-addr=:1 --admin-tokens=t --dashboard-session=1s", "--dashboard-session: 1s is out of range"},
		{good + "--store-budget=0s", "--store-budget: 0s is out of range"},
	} {
		_, err := parseProxy(t, strings.Fields(tt.args)...)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v, want one with %q", tt.args, err, tt.want)
		}
	}
}

// TestProxyRules: rules may come from wherever `headgate serve` takes them.
func TestProxyRules(t *testing.T) {
	for _, from := range []string{
		"--rules=r", "--tenants=sqlite://t.db", "--snapshot-keys=k --admin-urls=https://a:1", "--xds-server=h:1", "--rules-url=https://h/r.yaml",
	} {
		if _, err := parseProxy(t, strings.Fields("--to=http://h "+from)...); err != nil {
			t.Errorf("%s: %v", from, err)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "1": 1, "268435456": 268435456, "1KiB": 1024, "64MiB": 64 << 20, "4GiB": 4 << 30} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s: %d, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "-1", "1MB", "MiB", "1.5GiB", "9999999999999GiB", "1 KiB", "1KiBKiB"} {
		s := Size(7)
		if err := s.UnmarshalText([]byte(text)); err == nil || s != 7 {
			t.Errorf("%q is %d, %v", text, s, err)
		}
	}
}

func FuzzSize(f *testing.F) {
	for _, text := range []string{"0", "64MiB", "9223372036854775807", "9999999999GiB", "-1KiB"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err == nil && s < 0 {
			t.Errorf("%q is %d", text, s)
		}
	})
}
