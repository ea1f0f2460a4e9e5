package envoyenv

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate/store/redisstore"
)

// of returns what looks variables up in a map.
func of(environment map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	}
}

// read reads an environment, which must be right.
func read(t *testing.T, environment map[string]string) Environment {
	t.Helper()
	e, err := Read(of(environment))
	if err != nil {
		t.Fatalf("%v: %v", environment, err)
	}
	return e
}

// defaults are the settings of an environment without any variable.
var defaults = map[string]string{
	"compat": "envoy", "envoy-metrics": "true", "start-without-rules": "true", "caller-limits": "true",
	"http-addr": "0.0.0.0:8080", "ops-addr": "0.0.0.0:6070", "grpc-addr": "0.0.0.0:8081",
	"grpc-max-connection-age": "24h", "grpc-max-connection-age-grace": "1h",
	"log-level": "warn", "log-format": "text",
	"rules": "/srv/runtime_data/current/config", "store": "unix:///var/run/nutcracker/ratelimit.sock",
}

// with returns the defaults with others in place of some.
func with(settings map[string]string) map[string]string {
	all := maps.Clone(defaults)
	maps.Copy(all, settings)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" }) // one that is not there
	return all
}

// redis is what variables of Redis there have to be for one that is reached by TCP.
func redis(more map[string]string) map[string]string {
	all := map[string]string{"REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": "redis:6379"}
	maps.Copy(all, more)
	return all
}

// xds is what there has to be for rules of a control plane.
func xds(more map[string]string) map[string]string {
	all := map[string]string{"CONFIG_TYPE": "GRPC_XDS_SOTW"}
	maps.Copy(all, more)
	return all
}

func TestNumberOfVariables(t *testing.T) {
	names := map[string]bool{}
	for _, v := range variables {
		names[v.name] = true
		if err := v.check(v.fallback); v.fallback != "" && err != nil {
			t.Errorf("the default of %s: %v", v.name, err)
		}
	}
	if len(names) != 114 || len(variables) != 114 {
		t.Errorf("%d variables of %d names, want 114", len(variables), len(names))
	}
}

// TestEveryVariable: each changes a setting, or says that it has no effect, or is refused;
// with its default it says nothing. Errors about a setting that it changes name it.
//
//promise:envoy-drop-in
func TestEveryVariable(t *testing.T) {
	// What has to be set beside a variable for it to matter, and a value for it where its
	// type does not say one.
	beside := map[string]map[string]string{
		"GRPC_SERVER_USE_TLS":                       {"GRPC_SERVER_TLS_CERT": "c", "GRPC_SERVER_TLS_KEY": "k"},
		"GRPC_SERVER_TLS_CERT":                      {"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_KEY": "k"},
		"GRPC_SERVER_TLS_KEY":                       {"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": "c"},
		"GRPC_CLIENT_TLS_CACERT":                    {"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": "c", "GRPC_SERVER_TLS_KEY": "k"},
		"GRPC_CLIENT_TLS_SAN":                       {"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": "c", "GRPC_SERVER_TLS_KEY": "k", "GRPC_CLIENT_TLS_CACERT": "ca"},
		"PROMETHEUS_ADDR":                           {"USE_PROMETHEUS": "true"},
		"PROMETHEUS_PATH":                           {"USE_PROMETHEUS": "true"},
		"LIMIT_LIMIT_HEADER":                        {"LIMIT_RESPONSE_HEADERS_ENABLED": "true"},
		"LIMIT_REMAINING_HEADER":                    {"LIMIT_RESPONSE_HEADERS_ENABLED": "true"},
		"LIMIT_RESET_HEADER":                        {"LIMIT_RESPONSE_HEADERS_ENABLED": "true"},
		"REDIS_TYPE":                                {"REDIS_URL": "main,a:1"},
		"REDIS_PERSECOND_TYPE":                      {"REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL": "main,a:1"},
		"REDIS_PERSECOND_SOCKET_TYPE":               {"REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL": "a:1"},
		"REDIS_PERSECOND_TLS":                       {"REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL": "a:1", "REDIS_PERSECOND_SOCKET_TYPE": "tcp"},
		"REDIS_PERSECOND_URL":                       {"REDIS_PERSECOND": "true"},
		"REDIS_PERSECOND_AUTH":                      {"REDIS_PERSECOND": "true"},
		"REDIS_PERSECOND_SENTINEL_AUTH":             {"REDIS_PERSECOND": "true", "REDIS_PERSECOND_TYPE": "sentinel", "REDIS_PERSECOND_URL": "main,a:1"},
		"REDIS_SENTINEL_AUTH":                       {"REDIS_TYPE": "sentinel", "REDIS_URL": "main,a:1"},
		"REDIS_TLS":                                 redis(nil),
		"REDIS_SOCKET_TYPE":                         {"REDIS_URL": "a:1"},
		"REDIS_TLS_CLIENT_CERT":                     redis(map[string]string{"REDIS_TLS": "true"}),
		"REDIS_TLS_CLIENT_KEY":                      redis(map[string]string{"REDIS_TLS": "true"}),
		"REDIS_TLS_CACERT":                          redis(map[string]string{"REDIS_TLS": "true"}),
		"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION":      redis(map[string]string{"REDIS_TLS": "true"}),
		"MEMCACHE_HOST_PORT":                        {"BACKEND_TYPE": "memcache"},
		"MEMCACHE_SRV":                              {"BACKEND_TYPE": "memcache", "MEMCACHE_HOST_PORT": "m:1"},
		"MEMCACHE_TLS":                              {"BACKEND_TYPE": "memcache", "MEMCACHE_HOST_PORT": "m:1"},
		"MEMCACHE_TLS_CLIENT_CERT":                  {"BACKEND_TYPE": "memcache", "MEMCACHE_HOST_PORT": "m:1", "MEMCACHE_TLS": "true"},
		"MEMCACHE_TLS_CLIENT_KEY":                   {"BACKEND_TYPE": "memcache", "MEMCACHE_HOST_PORT": "m:1", "MEMCACHE_TLS": "true"},
		"MEMCACHE_TLS_CACERT":                       {"BACKEND_TYPE": "memcache", "MEMCACHE_HOST_PORT": "m:1", "MEMCACHE_TLS": "true"},
		"MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION":   {"BACKEND_TYPE": "memcache", "MEMCACHE_HOST_PORT": "m:1", "MEMCACHE_TLS": "true"},
		"BACKEND_TYPE":                              {"MEMCACHE_HOST_PORT": "m:1"},
		"TRACING_EXPORTER_PROTOCOL":                 {"TRACING_ENABLED": "true"},
		"CONFIG_GRPC_XDS_SERVER_USE_TLS":            xds(nil),
		"CONFIG_GRPC_XDS_NODE_ID":                   xds(nil),
		"CONFIG_GRPC_XDS_NODE_METADATA":             xds(nil),
		"CONFIG_GRPC_XDS_SERVER_URL":                xds(nil),
		"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": xds(nil),
		"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES":          xds(nil),
		"CONFIG_GRPC_XDS_CLIENT_TLS_CERT":           xds(map[string]string{"CONFIG_GRPC_XDS_SERVER_USE_TLS": "true"}),
		"CONFIG_GRPC_XDS_CLIENT_TLS_KEY":            xds(map[string]string{"CONFIG_GRPC_XDS_SERVER_USE_TLS": "true"}),
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT":         xds(map[string]string{"CONFIG_GRPC_XDS_SERVER_USE_TLS": "true"}),
		"CONFIG_GRPC_XDS_SERVER_TLS_SAN":            xds(map[string]string{"CONFIG_GRPC_XDS_SERVER_USE_TLS": "true"}),
		"TRACING_SAMPLING_RATE":                     {"TRACING_ENABLED": "true"},
		"EXTRA_TAGS":                                {"USE_STATSD": "true"},
		"STATS_FLUSH_INTERVAL":                      {"USE_STATSD": "true"},
		"DISABLE_STATS":                             {"USE_STATSD": "true"},
	}
	values := map[string]string{
		"GRPC_UDS": "/run/rl.sock", "LOG_LEVEL": "info", "LOG_FORMAT": "json", "CONFIG_TYPE": "GRPC_XDS_SOTW",
		"REDIS_TYPE": "sentinel", "REDIS_PERSECOND_TYPE": "sentinel", "REDIS_SOCKET_TYPE": "tcp", "REDIS_PERSECOND_SOCKET_TYPE": "tcp",
		"REDIS_URL": "/other.sock", "REDIS_PERSECOND_URL": "/other.sock", "BACKEND_TYPE": "memcache",
		"TRACING_EXPORTER_PROTOCOL": "grpc", "EXTRA_TAGS": "a:b",
	}
	// Whether the parent of the rules is watched makes no difference here.
	silent := []string{"RUNTIME_WATCH_ROOT"}
	for _, v := range variables {
		value, ok := values[v.name]
		switch {
		case ok:
		case v.kind == boolean:
			value = map[string]string{"true": "false"}[v.fallback]
			if value == "" {
				value = "true"
			}
			if v.name == "USE_STATSD" || v.name == "RUNTIME_IGNOREDOTFILES" { // which say it when they are given
				value = v.fallback
			}
		case v.kind == duration:
			value = "7s"
		case v.kind == text || v.kind == secret || v.kind == list:
			value = "other"
		default:
			value = "7"
		}
		environment := maps.Clone(beside[v.name])
		if environment == nil {
			environment = map[string]string{}
		}
		delete(environment, v.name)
		before, errBefore := Read(of(environment))
		environment[v.name] = value
		after, err := Read(of(environment))
		changed := err == nil && errBefore == nil && !maps.Equal(before.Settings, after.Settings) || err == nil && errBefore != nil
		noted := slices.ContainsFunc(after.Notes, func(note string) bool { return strings.HasPrefix(note, v.name+": ") })
		refused := err != nil && strings.Contains(err.Error(), v.name+": ")
		if says := changed || noted || refused; says == slices.Contains(silent, v.name) {
			t.Errorf("%s=%s: changes a setting %v, is noted %v, is refused %v (%v)", v.name, value, changed, noted, refused, err)
		}
		for flag, value := range after.Settings {
			if was, ok := before.Settings[flag]; ok && value != was && !slices.Contains(after.from[flag], v.name) {
				t.Errorf("%s=%s: changes --%s, whose errors do not name it", v.name, value, flag)
			}
		}
		if v.without != "" && (changed || !noted) {
			t.Errorf("%s=%s: changes a setting %v, is noted %v, and is said to have no effect", v.name, value, changed, noted)
		}
	}
}

func TestSettings(t *testing.T) {
	for name, test := range map[string]struct {
		environment, want map[string]string
		notes             int
	}{
		"nothing": {nil, nil, 0},
		"connections without an end": {
			map[string]string{"GRPC_MAX_CONNECTION_AGE": "0s", "GRPC_MAX_CONNECTION_AGE_GRACE": "9000h"},
			map[string]string{"grpc-max-connection-age": "8784h0m0s", "grpc-max-connection-age-grace": "8784h0m0s"}, 0,
		},
		"Envoy Gateway": {map[string]string{
			"RUNTIME_ROOT": "/data", "RUNTIME_SUBDIRECTORY": "ratelimit", "RUNTIME_IGNOREDOTFILES": "true", "RUNTIME_WATCH_ROOT": "false",
			"LOG_LEVEL": "info", "USE_STATSD": "false", "CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL": "envoy-gateway:18001",
			"CONFIG_GRPC_XDS_NODE_ID": "envoy-ratelimit", "CONFIG_GRPC_XDS_SERVER_USE_TLS": "true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT": "/certs/tls.crt",
			"CONFIG_GRPC_XDS_CLIENT_TLS_KEY": "/certs/tls.key", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT": "/certs/ca.crt", "GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": "/certs/tls.crt",
			"GRPC_SERVER_TLS_KEY": "/certs/tls.key", "GRPC_SERVER_TLS_CA_CERT": "/certs/ca.crt", "FORCE_START_WITHOUT_INITIAL_CONFIG": "true",
			"REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": "redis.redis-system.svc:6379", "REDIS_TLS": "true", "REDIS_TLS_CLIENT_CERT": "/redis-certs/tls.crt",
			"REDIS_TLS_CLIENT_KEY": "/redis-certs/tls.key", "USE_PROMETHEUS": "true", "PROMETHEUS_ADDR": ":19001",
			"PROMETHEUS_MAPPER_YAML": "/etc/statsd-exporter/conf.yaml", "TRACING_ENABLED": "true", "TRACING_SERVICE_NAME": "envoy-ratelimit",
			"TRACING_SAMPLING_RATE": "1.0", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://otel:4318",
		}, map[string]string{
			"rules": "", "xds-server": "envoy-gateway:18001", "xds-node": "envoy-ratelimit", "xds-tls": "true", "xds-cert": "/certs/tls.crt",
			"xds-key": "/certs/tls.key", "xds-ca": "/certs/ca.crt", "log-level": "info", "tls-cert": "/certs/tls.crt", "tls-key": "/certs/tls.key", "tls-except": "http,auth,usage",
			"store":        "rediss://redis.redis-system.svc:6379/0?cert=%2Fredis-certs%2Ftls.crt&key=%2Fredis-certs%2Ftls.key",
			"metrics-addr": ":19001", "metrics-path": "/metrics", "trace-endpoint": "http://otel:4318", "trace-ratio": "1.0",
		}, 4},
		"Istio": {map[string]string{
			"LOG_LEVEL": "debug", "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": "redis:6379", "USE_STATSD": "false", "RUNTIME_ROOT": "/data",
			"RUNTIME_SUBDIRECTORY": "ratelimit", "RUNTIME_WATCH_ROOT": "false", "RUNTIME_IGNOREDOTFILES": "true", "HOST": "::", "GRPC_HOST": "::",
		}, map[string]string{
			"log-level": "debug", "store": "redis://redis:6379/0", "rules": "/data/ratelimit/config", "http-addr": "[::]:8080", "grpc-addr": "[::]:8081",
		}, 0},
		"links of Kubernetes": {map[string]string{"PORT": "tcp://10.0.0.1:80", "GRPC_PORT": "tcp://10.0.0.1:81", "STATSD_PORT": "udp://10.0.0.1:8125"}, nil, 3},
		"client certificates": {map[string]string{
			"GRPC_SERVER_USE_TLS": "1", "GRPC_SERVER_TLS_CERT": "c", "GRPC_SERVER_TLS_KEY": "k", "GRPC_CLIENT_TLS_CACERT": "ca", "GRPC_CLIENT_TLS_SAN": "envoy.internal",
		}, map[string]string{"tls-cert": "c", "tls-key": "k", "tls-except": "http,auth,usage", "client-ca": "ca", "client-names": "dns:envoy.internal"}, 0},
		"a socket":         {map[string]string{"GRPC_UDS": "/run/rl.sock"}, map[string]string{"grpc-addr": "unix:///run/rl.sock"}, 0},
		"levels":           {map[string]string{"LOG_LEVEL": "Warning"}, nil, 0},
		"a password":       {redis(map[string]string{"REDIS_AUTH": "p@ss/word"}), map[string]string{"store": "redis://:p%40ss%2Fword@redis:6379/0"}, 0},
		"a user":           {redis(map[string]string{"REDIS_AUTH": "app:pa:ss"}), map[string]string{"store": "redis://app:pa%3Ass@redis:6379/0"}, 0},
		"a URL":            {redis(map[string]string{"REDIS_URL": "rediss://app:pass@redis:6379"}), map[string]string{"store": "rediss://app:pass@redis:6379/0"}, 0},
		"a prefix":         {redis(map[string]string{"CACHE_KEY_PREFIX": "eu:"}), map[string]string{"store": "redis://redis:6379/0?prefix=eu%3A"}, 0},
		"a database":       {redis(map[string]string{"REDIS_URL": "redis://u:p@127.0.0.1:1/3"}), map[string]string{"store": "redis://u:p@127.0.0.1:1/3"}, 0},
		"another password": {redis(map[string]string{"REDIS_URL": "redis://u:p@127.0.0.1:1/3", "REDIS_AUTH": "other"}), map[string]string{"store": "redis://u:other@127.0.0.1:1/3"}, 0},
		"another user":     {redis(map[string]string{"REDIS_URL": "redis://u:p@127.0.0.1:1", "REDIS_AUTH": "me:other"}), map[string]string{"store": "redis://me:other@127.0.0.1:1/0"}, 0},
		"parameters":       {redis(map[string]string{"REDIS_URL": "redis://127.0.0.1:1?db=3&username=u&password=p"}), map[string]string{"store": "redis://u:p@127.0.0.1:1/3"}, 0},
		"a path wins":      {redis(map[string]string{"REDIS_URL": "redis://u@127.0.0.1:1/2?db=3&username=w&password=p"}), map[string]string{"store": "redis://u:p@127.0.0.1:1/2"}, 0},
		"files of a URL":   {redis(map[string]string{"REDIS_URL": "rediss://a:1/3", "REDIS_TLS_CACERT": "/ca"}), map[string]string{"store": "rediss://a:1/3?ca=%2Fca"}, 0},
		"URLs of sentinels": {
			redis(map[string]string{"REDIS_TYPE": "SENTINEL", "REDIS_URL": "main,redis://u:s@a:1/0,b:2", "REDIS_AUTH": "p"}),
			map[string]string{"store": "redis+sentinel://:p@a:1,b:2/0?master=main&sentinel_password=s&sentinel_user=u"}, 0,
		},
		"another password of sentinels": {
			redis(map[string]string{"REDIS_TYPE": "SENTINEL", "REDIS_URL": "main,redis://u:s@a:1", "REDIS_SENTINEL_AUTH": "t"}),
			map[string]string{"store": "redis+sentinel://a:1/0?master=main&sentinel_password=t&sentinel_user=u"}, 0,
		},
		"URLs of a cluster": {redis(map[string]string{"REDIS_TYPE": "CLUSTER", "REDIS_URL": "redis://u:p@a:1/0,redis://u:p@b:2,c:3"}), map[string]string{"store": "redis+cluster://u:p@a:1,b:2,c:3"}, 0},
		"a URL per second": {
			redis(map[string]string{"REDIS_PERSECOND": "true", "REDIS_PERSECOND_SOCKET_TYPE": "tcp", "REDIS_PERSECOND_URL": "redis://u:p@fast:1/4", "REDIS_PERSECOND_AUTH": "q"}),
			map[string]string{"store": "redis://redis:6379/0", "store-per-second": "redis://u:q@fast:1/4"}, 0,
		},
		"sentinels":        {redis(map[string]string{"REDIS_TYPE": "Sentinel", "REDIS_URL": "main,a:1,b:2", "REDIS_AUTH": "p", "REDIS_SENTINEL_AUTH": "u:s"}), map[string]string{"store": "redis+sentinel://:p@a:1,b:2/0?master=main&sentinel_password=s&sentinel_user=u"}, 0},
		"a cluster by TLS": {redis(map[string]string{"REDIS_TYPE": "CLUSTER", "REDIS_URL": "a:1,b:2", "REDIS_TLS": "true", "REDIS_TLS_CACERT": "/ca"}), map[string]string{"store": "rediss+cluster://a:1,b:2?ca=%2Fca"}, 0},
		"two":              {redis(map[string]string{"REDIS_PERSECOND": "true", "REDIS_PERSECOND_SOCKET_TYPE": "tcp", "REDIS_PERSECOND_URL": "fast:1"}), map[string]string{"store": "redis://redis:6379/0", "store-per-second": "redis://fast:1/0"}, 0},
		"memcached":        {map[string]string{"BACKEND_TYPE": "memcache", "MEMCACHE_HOST_PORT": "a:1,b:2", "MEMCACHE_TLS": "true", "MEMCACHE_TLS_CACERT": "/ca"}, map[string]string{"store": "memcached://a:1,b:2?ca=%2Fca&tls=true"}, 0},
		"answers": {map[string]string{
			"LIMIT_RESPONSE_HEADERS_ENABLED": "true", "LIMIT_RESET_HEADER": "X-Reset", "RESPONSE_DYNAMIC_METADATA": "true", "SHADOW_MODE": "true", "MERGE_DOMAIN_CONFIG": "t",
		}, map[string]string{"rls-headers": "envoy", "rls-reset-header": "X-Reset", "rls-metadata": "true", "shadow": "true", "merge-domains": "true"}, 0},
		"ways of all rules": {map[string]string{
			"NEAR_LIMIT_RATIO": "0.9", "QUOTA_MODE": "true", "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "true", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED": "true",
		}, map[string]string{"near-limit-ratio": "0.9", "quota-mode": "true", "spare-denied": "true", "ready-with-rules": "true"}, 0},
		"empty values": {map[string]string{"PORT": "", "REDIS_TLS": "", "REDIS_URL": ""}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, test.environment)
			if diff := cmp.Diff(with(test.want), got.Settings); diff != "" {
				t.Error(diff)
			}
			if len(got.Notes) != test.notes {
				t.Errorf("%d notes, want %d: %q", len(got.Notes), test.notes, got.Notes)
			}
			// Files are read at once, so a URL that names some is left to the whole process.
			if store := got.Settings["store"]; strings.Contains(store, "redis") && !strings.Contains(store, "%2F") {
				if _, err := redisstore.ParseURL(store); err != nil {
					t.Errorf("%s: %v", store, err)
				}
			}
		})
	}
}

// TestExplain: an error about a flag names the variables that were given for it, once, and one about
// a flag that nobody gave a variable for stays as it is.
func TestExplain(t *testing.T) {
	e := read(t, redis(map[string]string{"REDIS_TYPE": "CLUSTER", "CACHE_KEY_PREFIX": "p", "REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL": "other:6379", "REDIS_PERSECOND_SOCKET_TYPE": "tcp", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://o:4318", "TRACING_ENABLED": "true", "GRPC_PORT": "1"}))
	for text, want := range map[string]string{
		"--store: bad, --store":     "--store: bad, --store; hint: here --store stands for CACHE_KEY_PREFIX and REDIS_SOCKET_TYPE and REDIS_TYPE and REDIS_URL",
		"--store-per-second: bad":   "--store-per-second: bad; hint: here --store-per-second stands for CACHE_KEY_PREFIX and REDIS_PERSECOND_SOCKET_TYPE and REDIS_PERSECOND_URL",
		"--trace-endpoint: bad":     "--trace-endpoint: bad; hint: here --trace-endpoint stands for OTEL_EXPORTER_OTLP_ENDPOINT",
		"--grpc-addr: bad; hint: x": "--grpc-addr: bad; hint: x; hint: here --grpc-addr stands for GRPC_PORT",
		"--http-addr: bad":          "--http-addr: bad",
		"no flag":                   "no flag",
		// What is off has a variable that turns it on.
		"let them: --merge-domains": "let them: --merge-domains; hint: here --merge-domains stands for MERGE_DOMAIN_CONFIG=true",
	} {
		if got := e.Explain(errors.New(text)); got.Error() != want {
			t.Errorf("%q\nis told as %q,\nwant       %q", text, got, want)
		}
	}
	if e.Explain(nil) != nil {
		t.Error("nothing is an error")
	}
}

// TestRefused: what cannot be used is one error for each variable, which names it and a way
// out, and no secret.
func TestRefused(t *testing.T) {
	for environment, want := range map[string]string{
		"PORT=seven":                         `PORT: "seven" is not what it takes; hint: a port, from 0 to 65535`,
		"GRPC_PORT=70000":                    `GRPC_PORT: "70000" is not what it takes; hint: a port, from 0 to 65535`,
		"REDIS_TLS=maybe":                    `REDIS_TLS: "maybe" is not what it takes; hint: true or false`,
		"REDIS_TIMEOUT=10":                   `REDIS_TIMEOUT: "10" is not what it takes; hint: a time with its unit, such as 10s`,
		"NEAR_LIMIT_RATIO=80%":               `NEAR_LIMIT_RATIO: "80%" is not what it takes; hint: a number, such as 0.8`,
		"REDIS_POOL_SIZE=many":               `REDIS_POOL_SIZE: "many" is not what it takes; hint: a whole number`,
		"EXTRA_TAGS=a=b":                     `EXTRA_TAGS: "a=b" is not what it takes; hint: name:value,name:value`,
		"LOG_LEVEL=loud":                     `LOG_LEVEL: "loud" is no choice; hint: trace, debug, info, warn, warning, error, fatal, panic`,
		"BACKEND_TYPE=dynamo":                `BACKEND_TYPE: "dynamo" is no choice; hint: redis, memcache`,
		"BACKEND_TYPE=memcache":              `MEMCACHE_HOST_PORT: no server is named; hint: host:11211,host:11211`,
		"GRPC_UDS=run/a.sock":                `GRPC_UDS: the path of a socket is absolute; hint: /run/ratelimit.sock`,
		"REDIS_TYPE=sentinel":                `REDIS_URL: it does not name a primary and sentinels; hint: master,host:26379,host:26379`,
		"REDIS_URL=redis:6379":               `REDIS_URL: the path of a socket is absolute; hint: an absolute path, or REDIS_SOCKET_TYPE=tcp for host:6379`,
		"REDIS_SOCKET_TYPE=tcp REDIS_URL=:s": "",
		"CACHE_KEY_PREFIX=b{c":               `CACHE_KEY_PREFIX: the prefix holds a character that it may not; hint: letters, digits and : . _ - / (such as shop-eu:)`,
		"REDIS_PERSECOND=true REDIS_PERSECOND_URL=/s.sock CACHE_KEY_PREFIX={": `CACHE_KEY_PREFIX: the prefix holds a character that it may not; hint: letters, digits and : . _ - / (such as shop-eu:)`,
		"GRPC_SERVER_USE_TLS=true": "GRPC_SERVER_TLS_CERT: GRPC_SERVER_USE_TLS needs it; hint: a file in PEM\nGRPC_SERVER_TLS_KEY: GRPC_SERVER_USE_TLS needs it; hint: a file in PEM",
	} {
		all := map[string]string{}
		for pair := range strings.FieldsSeq(environment) {
			name, value, _ := strings.Cut(pair, "=")
			all[name] = value
		}
		e, err := Read(of(all))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", environment, err)
		case want != "" && (err == nil || err.Error() != want || e.Settings != nil):
			t.Errorf("%s: %v, want %s", environment, err, want)
		}
	}
	for _, name := range []string{"REDIS_AUTH", "REDIS_SENTINEL_AUTH", "REDIS_PERSECOND_AUTH", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "REDIS_URL"} {
		e, err := Read(of(map[string]string{name: "geheim", "LOG_LEVEL": "loud", "REDIS_TYPE": "other"}))
		if err == nil || strings.Contains(err.Error()+strings.Join(e.Notes, ""), "geheim") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRefusedURLs: what a URL of Redis has and Headgate has no place for is refused, and never told.
func TestRefusedURLs(t *testing.T) {
	const form = `it does not have the form of a URL; hint: redis://user:password@host:6379/0; percent-encode special characters of the password: @ is %40, / is %2F, # is %23, % is %25`
	for address, want := range map[string]string{
		"SINGLE redis://h:1/three":                     "the database of its URL is not a number; hint: redis://host:6379/0",
		"SINGLE redis://h:1/-1":                        "the database of its URL is not a number; hint: redis://host:6379/0",
		"SINGLE redis://h:1/2147483648":                "the database of its URL is not a number; hint: redis://host:6379/0",
		"SINGLE redis://h:1?db=geheim":                 "the database of its URL is not a number; hint: redis://host:6379/0",
		"SINGLE redis://h:1/3?geheim=5s":               "its URL has a parameter that is not carried over; hint: db, username and password, or HEADGATE_STORE with what Headgate's own URLs take",
		"SINGLE redis://h:1/3?db=%":                    "the query of its URL is malformed; hint: ?db=0; & is %26 in a value, % is %25",
		"SINGLE redis://u:geheim#1@h:1":                form,
		"SINGLE redis:///3":                            form,
		"SINGLE redis+cluster://h:1":                   "its URL is of no Redis; hint: host:6379 or redis://user:password@host:6379/0; HEADGATE_STORE takes the URLs of Headgate's own",
		"SENTINEL main,redis://h:1/3":                  "a sentinel has no database; hint: leave the database out: the servers behind sentinels count in database 0",
		"SENTINEL main,redis://h:1?geheim=1":           "its URL has a parameter that is not carried over; hint: db, username and password, or HEADGATE_STORE with what Headgate's own URLs take",
		"SENTINEL redis://h:1,redis://h:2":             "it does not name a primary and sentinels; hint: master,host:26379,host:26379",
		"CLUSTER redis://h:1/3":                        "a cluster has only database 0; hint: leave the database out, or REDIS_TYPE=SINGLE",
		"CLUSTER redis://u:geheim@h:1,redis://u:p@h:2": "its URLs have different users or passwords; hint: the same in all of them, or REDIS_AUTH",
	} {
		kind, address, _ := strings.Cut(address, " ")
		for _, prefix := range []string{"REDIS_", "REDIS_PERSECOND_"} {
			_, err := Read(of(redis(map[string]string{
				"REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL": "h:1", "REDIS_PERSECOND_SOCKET_TYPE": "tcp", prefix + "TYPE": kind, prefix + "URL": address,
			})))
			if want := prefix + "URL: " + strings.ReplaceAll(want, "REDIS_", prefix); err == nil || err.Error() != want {
				t.Errorf("%s %s:\n%v, want\n%s", kind, address, err, want)
			}
		}
	}
}

// TestDocumented: the page about the change has every variable with what becomes of it.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/migrate/envoy-ratelimit.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| (.*) \\|$").FindAllStringSubmatch(string(page), -1) {
		rows[row[1]] = row[2]
	}
	for _, v := range variables {
		switch row, ok := rows[v.name]; {
		case !ok:
			t.Errorf("%s has no row", v.name)
		case v.without != "" && row != "no effect: "+v.without:
			t.Errorf("the row of %s says %q, want %q", v.name, row, "no effect: "+v.without)
		}
		delete(rows, v.name)
	}
	delete(rows, "GRPC_SERVER_TLS_CA_CERT") // which Envoy Gateway sets
	for name := range rows {
		t.Errorf("%s is no variable", name)
	}
}

// FuzzRead: no value makes it panic, and none of a secret is told.
func FuzzRead(f *testing.F) {
	f.Add("REDIS_URL", "redis://user:geheim@[::1]:6379")
	f.Add("REDIS_URL", "main,a:1")
	f.Add("PORT", "tcp://")
	f.Add("LOG_LEVEL", "\xff")
	f.Fuzz(func(t *testing.T, name, value string) {
		for _, kind := range []string{"single", "sentinel", "cluster"} {
			e, err := Read(of(map[string]string{"REDIS_SOCKET_TYPE": "tcp", "REDIS_TYPE": kind, name: value, "REDIS_AUTH": "geheim"}))
			if err != nil && strings.Contains(err.Error(), "geheim") && !strings.Contains(value, "geheim") {
				t.Errorf("%q=%q: %v", name, value, err)
			}
			if err == nil && e.Settings["store"] == "" {
				t.Errorf("%q=%q: no store", name, value)
			}
		}
	})
}
