package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/yamlfile"
)

// command is a command line with settings, as `headgate serve` has.
type command struct {
	Config string `placeholder:"FILE"`
	Serve  `embed:""`
}

func parse(t *testing.T, args ...string) (Serve, error) {
	t.Helper()
	var c command
	parser, err := kong.New(&c, kong.DefaultEnvars(EnvPrefix), kong.Resolvers(&File{}), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	var inFile *yamlfile.Error
	if errors.As(err, &inFile) {
		err = inFile
	}
	return c.Serve, err
}

func settingsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "headgate.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaultsAreValid(t *testing.T) {
	s, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	want := Serve{
		Settings: Settings{
			FailureMode: "open", RowsDomain: "api", RulesPoll: 10 * time.Second, Store: NewStoreURL("memory://"), StoreBudget: 20 * time.Millisecond,
			BreakerFailures: 3, BreakerRatio: 0.5, BreakerPause: time.Second, DenialMemory: 65536, DenialTime: 2 * time.Second,
			Listeners: Listeners{MaxConnections: 20000},
			OpsAddr:   "127.0.0.1:6070", MetricsPath: "/metrics", Statsd: Statsd{StatsdInterval: 10 * time.Second, StatsdFormat: "statsd"}, XDS: XDS{XDSNode: "default", XDSMaxMessage: 16 << 20}, StandIn: StandIn{NearLimitRatio: 0.8}, DrainDelay: time.Second, DrainTimeout: 15 * time.Second,
			Answers:       Answers{Headers: "draft-8", XRateLimit: true, XRateLimitReset: "unix", Reset: "full", Body: "platform", RetryJitter: 0.1},
			LoadBalancers: LoadBalancers{ProxyProtocolOthers: "serve"},
			LogLevel:      "info", LogFormat: "text",
			Observing: Observing{DenialLines: 1, TopKeys: 64, AccuracySample: 0.001, AuditSample: 0.01, AuditBuffer: 65536, AuditKeys: "hashed"},
		},
		Dashboard:  Dashboard{DashboardSession: 12 * time.Hour},
		CheckIDs:   CheckIDs{CheckIDTime: time.Minute},
		CallersTLS: CallersTLS{ClientCerts: "required"}, UsageAddr: ":8083",
		HTTPAddr: ":8080", GRPCAddr: ":8081", Duties: Duties{"decide,admin,dashboard"},
		Auth:       Auth{AuthPeers: "127.0.0.0/8,::1/128"},
		RLSHeaders: "off", RLSHeaderNames: RLSHeaderNames{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}, RLSClosed: "over_limit", GRPCTransport: "h2", GRPCMaxConnectionAge: 5 * time.Minute, GRPCMaxConnectionAgeGrace: 30 * time.Second,
	}
	if s != want {
		t.Errorf("defaults:\n got %+v\nwant %+v", s, want)
	}
}

func TestSourcesInOrder(t *testing.T) {
	file := settingsFile(t, "http-addr: :1\ngrpc-addr: :1\nops-addr: :1\nshadow: true\nstore-budget: 7ms\n")
	t.Setenv("HEADGATE_CONFIG", file)
	t.Setenv("HEADGATE_GRPC_ADDR", ":2")
	t.Setenv("HEADGATE_OPS_ADDR", ":2")
	s, err := parse(t, "--ops-addr=:3")
	if err != nil {
		t.Fatal(err)
	}
	got := []string{s.HTTPAddr, s.GRPCAddr, s.OpsAddr}
	if want := []string{":1", ":2", ":3"}; strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("file, environment, flag = %q, want %q", got, want)
	}
	if !s.Shadow || s.StoreBudget != 7*time.Millisecond {
		t.Errorf("shadow %v, store-budget %v from the file", s.Shadow, s.StoreBudget)
	}
}

func TestEverySettingHasThreeSources(t *testing.T) {
	var c command
	parser, err := kong.New(&c, kong.DefaultEnvars(EnvPrefix), kong.Resolvers(&File{}))
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]string{
		"accuracy-sample":       "0.5",
		"admin-addr":            ":1",
		"admin-urls":            "https://a:1",
		"audit-buffer":          "99",
		"audit-files":           "file:///x",
		"audit-kafka":           "kafka://h/t",
		"audit-keys":            "plain",
		"audit-sample":          "0.5",
		"auth-addr":             ":1",
		"auth-peers":            "10.0.0.0/8",
		"body":                  "flat",
		"breaker-failures":      "5",
		"breaker-ratio":         "0.25",
		"client-certs":          "optional",
		"compat":                "envoy",
		"dashboard-addr":        ":1",
		"dashboard-url":         "https://d",
		"dashboard-oidc-issuer": "https://i",
		"denial-lines":          "5",
		"denial-memory":         "7",
		"failure-mode":          "closed",
		"grpc-addr":             ":1",
		"headers":               "off",
		"health-addr":           ":1",
		"metrics-addr":          ":1",
		"metrics-endpoint":      "http://h:1",
		"near-limit-ratio":      "0.5",
		"xds-server":            "a:1",
		"xds-node":              "n",
		"xds-metadata":          "a=b",
		"xds-tls":               "true",
		"xds-ca":                "f",
		"xds-cert":              "f",
		"xds-key":               "f",
		"xds-server-name":       "n",
		"xds-max-message":       "2048",
		"xds-headers":           "a:b",
		"rules-url":             "https://h/r",
		"rules-s3-endpoint":     "https://h:1",
		"rules-s3-region":       "r",
		"metrics-path":          "/m",
		"max-connections":       "7",
		"http-addr":             ":1",
		"layer":                 "edge",
		"log-format":            "json",
		"log-level":             "debug",
		"nodes":                 "3",
		"ops-addr":              ":1",
		"redis-addr":            ":1",
		"prometheus-url":        "http://h:1",
		"proxy-protocol":        "http",
		"proxy-protocol-from":   "10.0.0.0/8",
		"proxy-protocol-others": "refuse",
		"reset":                 "window",
		"retry-jitter":          "0.2",
		"rls-closed":            "error",
		"grpc-transport":        "grpc-go",
		"rls-headers":           "http",
		"roles":                 "decide",
		"dual-run":              "grpc://h:1",
		"rls-limit-header":      "X-Limit",
		"rls-remaining-header":  "X-Remaining",
		"rls-reset-header":      "X-Reset",
		"statsd":                "udp://h:1",
		"statsd-tags":           "a:b",
		"statsd-format":         "dogstatsd",
		"socket-mode":           "0660",
		"store":                 "redis://h",
		"store-per-second":      "redis://s",
		"stores":                "stores.yaml",
		"regions":               "regions.yaml",
		"region":                "frankfurt",
		"tenants":               "sqlite:///t.db",
		"tenants-replica":       "postgres://r/d",
		"tls-except":            "grpc",
		"top-keys":              "9",
		"trace-endpoint":        "http://h:1",
		"trace-ratio":           "0.5",
		"usage-addr":            ":1",
		"x-ratelimit-reset":     "delta",
	}
	// beside are the settings without which one is refused, and what such a one is at first.
	database, keys := map[string]string{"tenants": "sqlite:///t.db"}, map[string]string{"admin-tokens": "tokens.yaml"}
	tls, admins := map[string]string{"tls-cert": "c", "tls-key": "k"}, map[string]string{"admin-urls": "https://a:1"}
	authorities := map[string]string{"tls-cert": "c", "tls-key": "k", "client-ca": "a"}
	admin := map[string]string{"admin-addr": ":1", "admin-tokens": "tokens.yaml", "admin-tls-cert": "c", "admin-tls-key": "k"}
	dashboard := map[string]string{"dashboard-addr": ":1", "admin-tokens": "tokens.yaml", "dashboard-tls-cert": "c", "dashboard-tls-key": "k"}
	byIssuer := map[string]string{"dashboard-addr": ":1", "admin-tokens": "tokens.yaml", "dashboard-oidc-issuer": "https://i", "dashboard-oidc-client": "c", "dashboard-url": "https://a"}
	gateways := map[string]string{"auth-addr": ":1"}
	web, bucket := map[string]string{"rules-url": "https://h/r"}, map[string]string{"rules-url": "s3://bucket/r"}
	ops := map[string]string{"ops-tls-cert": "c", "ops-tls-key": "k"}
	beside := map[string]map[string]string{
		"store-per-second":      {"store": "redis://h"},
		"stores":                {"store": "redis://h"},
		"regions":               {"store": "redis://h", "stores": "stores.yaml"},
		"region":                {"store": "redis://h", "stores": "stores.yaml", "regions": "regions.yaml"},
		"tenants-file":          database,
		"tenants-dir":           database,
		"tenants-replica":       {"tenants": "postgres://h/d"},
		"snapshot-sign-key":     {"tenants": "sqlite:///t.db", "admin-addr": ":1", "admin-tokens": "tokens.yaml"},
		"admin-urls-token":      {"admin-urls": "https://a:1", "snapshot-keys": "keys.pem"},
		"admin-urls-ca":         admins,
		"metrics-path":          {"metrics-addr": ":1"},
		"rls-limit-header":      {"rls-headers": "envoy"},
		"rls-remaining-header":  {"rls-headers": "envoy"},
		"rls-reset-header":      {"rls-headers": "envoy"},
		"statsd-tags":           {"statsd": "udp://h:1"},
		"statsd-format":         {"statsd": "udp://h:1"},
		"statsd-interval":       {"statsd": "udp://h:1"},
		"xds-node":              {"xds-server": "a:1"},
		"xds-metadata":          {"xds-server": "a:1"},
		"xds-tls":               {"xds-server": "a:1"},
		"xds-ca":                {"xds-server": "a:1", "xds-tls": "true"},
		"xds-cert":              {"xds-server": "a:1", "xds-tls": "true", "xds-key": "k", "xds-cert": "c"},
		"xds-key":               {"xds-server": "a:1", "xds-tls": "true", "xds-key": "k", "xds-cert": "c"},
		"xds-server-name":       {"xds-server": "a:1", "xds-tls": "true"},
		"xds-headers":           {"xds-server": "a:1"},
		"xds-headers-file":      {"xds-server": "a:1"},
		"rules-url-ca":          web,
		"rules-url-cert":        {"rules-url": "https://h/r", "rules-url-key": "k", "rules-url-cert": "c"},
		"rules-url-key":         {"rules-url": "https://h/r", "rules-url-key": "k", "rules-url-cert": "c"},
		"rules-url-token":       web,
		"rules-s3-region":       bucket,
		"rules-s3-endpoint":     bucket,
		"rules-s3-credentials":  bucket,
		"admin-urls-cert":       {"admin-urls": "https://a:1", "admin-urls-key": "k", "admin-urls-cert": "c"},
		"admin-urls-key":        {"admin-urls": "https://a:1", "admin-urls-key": "k", "admin-urls-cert": "c"},
		"snapshot-keys":         admins,
		"proxy-protocol":        {"proxy-protocol-from": "10.0.0.0/8", "proxy-protocol": "grpc"},
		"proxy-protocol-from":   {"proxy-protocol": "http", "proxy-protocol-from": "10.1.0.0/16"},
		"proxy-protocol-others": {"proxy-protocol": "http", "proxy-protocol-from": "10.1.0.0/16"},
		"trace-ratio":           {"trace-endpoint": "http://h:1"},
		"prometheus-url":        admin,
		"prometheus-token-file": {"prometheus-url": "http://h:1", "dashboard-addr": ":1", "admin-tokens": "tokens.yaml"},
		"admin-addr":            keys,
		"dashboard-addr":        keys,
		"tls-cert":              tls,
		"tls-key":               tls,
		"tls-except":            tls,
		"client-ca":             tls,
		"client-certs":          authorities,
		"client-names":          authorities,
		"usage-addr":            {"usage-key": "k"},
		"auth-peers":            gateways,
		"auth-domain":           gateways,
		"check-id-header":       gateways,
		"ops-tls-cert":          ops,
		"ops-tls-key":           ops,
		"ops-client-ca":         ops,
		"admin-tls-cert":        admin,
		"admin-tls-key":         admin,
		"admin-client-ca":       admin,
		"dashboard-tls-cert":    dashboard,
		"dashboard-tls-key":     dashboard,
		"dashboard-client-ca":   dashboard,
		"dashboard-url":         byIssuer,
		"dashboard-oidc-issuer": {"dashboard-addr": ":1", "admin-tokens": "tokens.yaml", "dashboard-oidc-client": "c", "dashboard-url": "https://a", "dashboard-oidc-issuer": "https://b"},
		"dashboard-oidc-client": byIssuer,
		"dashboard-oidc-secret": byIssuer,
		"dashboard-oidc-scopes": byIssuer,
	}
	for _, flag := range parser.Model.Flags {
		switch flag.Name {
		case "help", "config":
			continue
		}
		t.Run(flag.Name, func(t *testing.T) {
			value := "x"
			switch {
			case samples[flag.Name] != "":
				value = samples[flag.Name]
			case flag.IsBool():
				value = "true"
				if flag.Default == "true" {
					value = "false"
				}
			case flag.Target.Type().String() == "time.Duration":
				value = "3s"
			}
			var others, first []string
			for name, value := range beside[flag.Name] {
				if setting := "--" + name + "=" + value; name == flag.Name {
					first = []string{setting}
				} else {
					others = append(others, setting)
				}
			}
			others = others[:len(others):len(others)]
			before, err := parse(t, append(others, first...)...)
			if err != nil {
				t.Fatal(err)
			}
			byFlag, err := parse(t, append(others, "--"+flag.Name+"="+value)...)
			if err != nil {
				t.Fatal(err)
			}
			byFile, err := parse(t, append(others, "--config", settingsFile(t, flag.Name+": "+value))...)
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("HEADGATE_"+strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_")), value)
			byEnv, err := parse(t, others...)
			if err != nil {
				t.Fatal(err)
			}
			if reflect.DeepEqual(byFlag, before) || !reflect.DeepEqual(byFile, byFlag) || !reflect.DeepEqual(byEnv, byFlag) {
				t.Errorf("%s=%s: flag %+v\nfile %+v\nenvironment %+v", flag.Name, value, byFlag, byFile, byEnv)
			}
		})
	}
}

func TestFileErrors(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"unknown key", "shadow: true\nhttp_addr: :1\n", `:2:1: unknown setting "http_addr"; hint: did you mean "http-addr"?`},
		{"a flag's denial", "shadow: true\nno-caller-limits: true\n", ":2:1: unknown setting \"no-caller-limits\"; hint: the flag --no-caller-limits is `caller-limits: false` in a file"},
		{"a denial of no such flag", "no-such-thing: true\n", ":1:1: unknown setting; hint: settings have"},
		{"config in config", "config: other.yaml\n", ":1:1: unknown setting; hint"},
		{"bad duration", "shadow: true\n\nstore-budget: 20\n", ":3:1: --store-budget: the value is none that it takes; hint: a duration"},
		{"bad choice", "body: xml\n", `:1:1: --body: unknown choice; hint: platform, flat, problem`},
		{"bad choice of what may be left out", "layer: moon\n", `:1:1: --layer: unknown choice; hint: edge, gateway, backend`},
		{"bad bool", "shadow: perhaps\n", ":1:1: --shadow: the value is none that it takes; hint: true or false"},
		{"list", "- a\n", ":1:1: not a mapping; hint:"},
		{"nested", "shadow: {a: b}\n", ":1:1: shadow: not a single value; hint:"},
		{"no value", "rules:\n", ":1:1: rules: not a single value"},
		{"twice", "shadow: true\nshadow: false\n", ":2:1: shadow: given a second time; hint: the first is on line 1"},
		{"not YAML", "shadow: [\n", ":2:1: did not find expected node content"},
		{"alias", "rules: &a x\nstate-dir: *a\n", ":2:1: state-dir: not a single value"},
		{"large", strings.Repeat("#", maxFileBytes+1), "larger than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(t, "--config", settingsFile(t, tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	if _, err := parse(t, "--config", filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("a file that does not exist was accepted")
	}
	for _, empty := range []string{"", "\n", "# nothing\n", "---\n"} {
		if _, err := parse(t, "--config", settingsFile(t, empty)); err != nil {
			t.Errorf("empty file %q: %v", empty, err)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--retry-jitter=2", "--retry-jitter: 2 is out of range; hint: a share from 0 to 1"},
		{"--store-budget=0s", "--store-budget: 0s is out of range; hint: from 1ms to 10s"},
		{"--drain-timeout=20h", "--drain-timeout"},
		{"--http-addr=8080", `--http-addr: address "8080" is not host:port; hint:`},
		{"--grpc-addr=unix://run/x.sock", "the path of a socket is absolute; hint:"},
		{"--check-id-time=2h", "--check-id-time: 2h0m0s is out of range; hint: from 1s to 1h"},
		{"--check-id-header=a:b", `--check-id-header: "a:b" is no name of a header; hint: such as`},
		{"--check-id-header=Cookie", "--check-id-header: Cookie says something else; hint:"},
		{"--check-id-header=x-headgate-token", "--check-id-header: x-headgate-token says something else; hint:"},
		{"--check-id-header=X-Forwarded-For", "--check-id-header: X-Forwarded-For says something else; hint:"},
		{"--nodes=-1", "--nodes: -1 is out of range; hint: from 0 to 10000"},
		{"--denial-memory=99999999", "--denial-memory: 99999999 is out of range"},
		{"--breaker-failures=0", "--breaker-failures: 0 is out of range; hint: from 1"},
		{"--breaker-ratio=1.5", "--breaker-ratio: 1.5 is out of range"},
		{"--breaker-ratio=0", "--breaker-ratio: 0 is out of range; hint: above 0, up to 1"},
		{"--breaker-slow=1h", "--breaker-slow: 1h0m0s is out of range"},
		{"--breaker-pause=1ms", "--breaker-pause: 1ms is out of range"},
		{"--store-per-second=redis://h", "--store-per-second: --store is in memory"},
		{"--stores=stores.yaml", "--stores: --store is in memory"},
		{"--store=redis://h --store-per-second=memory://", "--store-per-second: a memory store counts in this process alone"},
		{"--store=redis://h --store-per-second=mysql://h", "--store-per-second: unknown kind of store; hint:"},
		{"--store=localhost:6379", "--store: no kind of store is named; hint: redis://localhost:6379"},
		{"--store=cache-1.internal:11211", "--store: no kind of store is named; hint: memcached://cache-1.internal:11211"},
		{"--store=[::1]:26379", "--store: no kind of store is named; hint: redis+sentinel://[::1]:26379/0?master=NAME"},
		{"--store=user:hunter2@h:6379", "--store: unknown kind of store; hint:"},
		{"--store=mysql://x", "--store: unknown kind of store; hint:"},
		{"--store=", "--store: no store is named; hint:"},
		{"--store=redis://u:p/w@h", "hint: write special characters"},
	} {
		if _, err := parse(t, strings.Fields(tt.args)...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.args, err, tt.want)
		}
	}
}

func TestListenAddress(t *testing.T) {
	for _, tt := range []struct{ addr, network, address string }{
		{":8080", "tcp", ":8080"},
		{"[::1]:0", "tcp", "[::1]:0"},
		{"unix:///run/x.sock", "unix", "/run/x.sock"},
	} {
		network, address, err := ListenAddress(tt.addr)
		if err != nil || network != tt.network || address != tt.address {
			t.Errorf("%s: %s %s %v", tt.addr, network, address, err)
		}
	}
}

func TestStoreURLNeverPrintsSecrets(t *testing.T) {
	const secret = "hunter2"
	for _, tt := range []struct{ raw, want string }{
		{"redis://user:hunter2@host:6379/0", "redis://user:xxxxx@host:6379/0"},
		{"redis://:hunter2@host", "redis://:xxxxx@host"},
		{"redis+sentinel://u:hunter2@h1:1,h2:2/0?master=m&sentinel_password=hunter2&sentinel_user=s", "redis+sentinel://u:xxxxx@h1:1,h2:2/0?master=m&sentinel_password=xxxxx&sentinel_user=s"},
		{"rediss+cluster://:hunter2@h1,h2:2", "rediss+cluster://:xxxxx@h1,h2:2"},
		{"memcached://u:hunter2@h1:1,h2:2?prefix=p", "memcached://u:xxxxx@h1:1,h2:2?prefix=p"},
		{"redis+cluster://u:hunter2@[::1]:1,[::2]:2", "xxxxx"},
		{"redis://hunter2@host", "redis://xxxxx@host"},
		{"unix:///run/r.sock?db=1&Password=hunter2", "unix:///run/r.sock?Password=xxxxx&db=1"},
		{"memory://?max_bytes=64MiB", "memory://?max_bytes=64MiB"},
		{"redis://h?PWD=hunter2&secret=hunter2&a_token=hunter2&Auth=hunter2&credentials=hunter2&db=1", "redis://h?Auth=xxxxx&PWD=xxxxx&a_token=xxxxx&credentials=xxxxx&db=1&secret=xxxxx"},
		{"redis://u:hunter2%zz@host", "xxxxx"},
		{"redis://h?a=%zz&p=hunter2", "redis://h?xxxxx"},
		{"redis:hunter2@host", "xxxxx"},
		{"hunter2", "xxxxx"},
		{"", ""},
	} {
		u := NewStoreURL(tt.raw)
		if got := u.String(); got != tt.want {
			t.Errorf("%s prints as %s, want %s", tt.raw, got, tt.want)
		}
		s := Serve{Settings: Settings{Store: u, StorePerSecond: u}}
		asJSON, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var logged strings.Builder
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("start", "store", u, "settings", s)
		printed := []string{string(asJSON), logged.String(), fmt.Sprint(s.Validate())}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			printed = append(printed, fmt.Sprintf(verb, u), fmt.Sprintf(verb, s), fmt.Sprintf(verb, &s))
		}
		for _, p := range printed {
			if strings.Contains(p, secret) || strings.Contains(p, fmt.Sprintf("%x", secret)) {
				t.Errorf("%s: the secret is printed: %s", tt.want, p)
			}
		}
		if u.Reveal() != tt.raw {
			t.Errorf("Reveal lost %q", tt.raw)
		}
	}
}

func TestBadStoreInEnvironmentIsNotQuoted(t *testing.T) {
	t.Setenv("HEADGATE_STORE", "redis://u:hunter2%zz@host")
	if _, err := parse(t); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
}
