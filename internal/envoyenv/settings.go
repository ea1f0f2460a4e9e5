package envoyenv

import (
	"cmp"
	"net"
	"path"
	"strings"
	"time"
)

// mapAll turns all values into settings.
func (r *reader) mapAll() {
	r.set("compat", "envoy")
	r.set("envoy-metrics", "true")
	r.set("start-without-rules", "true")
	r.set("caller-limits", "true") // any caller may name a limit or give hits back there
	r.mapListeners()
	r.mapTLS()
	r.mapLogs()
	r.mapRules()
	r.mapMetrics()
	r.mapAnswers()
	r.mapStores()
	r.mapTracing()
}

// longestAge is how long a connection lasts where the original has no end for it, or one that is
// further away than can be said.
const longestAge = 8784 * time.Hour

func (r *reader) mapListeners() {
	r.set("http-addr", r.address("HOST", "PORT"), "HOST", "PORT")
	r.set("ops-addr", r.address("DEBUG_HOST", "DEBUG_PORT"), "DEBUG_HOST", "DEBUG_PORT")
	r.set("grpc-addr", r.address("GRPC_HOST", "GRPC_PORT"), "GRPC_HOST", "GRPC_PORT")
	if socket := r.get("GRPC_UDS"); socket != "" {
		if !path.IsAbs(socket) {
			r.refuse("GRPC_UDS", "the path of a socket is absolute", "/run/ratelimit.sock")
		}
		r.set("grpc-addr", "unix://"+socket, "GRPC_UDS")
	}
	for flag, name := range map[string]string{
		"grpc-max-connection-age": "GRPC_MAX_CONNECTION_AGE", "grpc-max-connection-age-grace": "GRPC_MAX_CONNECTION_AGE_GRACE",
	} {
		age := r.get(name)
		if d, _ := time.ParseDuration(age); d == 0 || d > longestAge { // read has checked it
			age = longestAge.String()
		}
		r.set(flag, age, name)
	}
}

// address joins a host, which may be IPv6 with or without brackets, and a port.
func (r *reader) address(host, port string) string {
	return net.JoinHostPort(strings.Trim(r.get(host), "[]"), r.get(port))
}

// mapTLS has TLS on the gRPC port alone, as there.
func (r *reader) mapTLS() {
	if ca, ok := r.lookup("GRPC_SERVER_TLS_CA_CERT"); ok && ca != "" && r.get("GRPC_CLIENT_TLS_CACERT") == "" {
		r.note("GRPC_SERVER_TLS_CA_CERT", "nobody has to show a certificate, because envoyproxy/ratelimit does not read this variable; hint: GRPC_CLIENT_TLS_CACERT with the same file requires one of every caller")
	}
	if !r.is("GRPC_SERVER_USE_TLS") {
		return
	}
	for _, name := range []string{"GRPC_SERVER_TLS_CERT", "GRPC_SERVER_TLS_KEY"} {
		if r.get(name) == "" {
			r.refuse(name, "GRPC_SERVER_USE_TLS needs it", "a file in PEM")
		}
	}
	r.set("tls-cert", r.get("GRPC_SERVER_TLS_CERT"), "GRPC_SERVER_TLS_CERT")
	r.set("tls-key", r.get("GRPC_SERVER_TLS_KEY"), "GRPC_SERVER_TLS_KEY")
	r.set("tls-except", "http,auth,usage")
	if ca := r.get("GRPC_CLIENT_TLS_CACERT"); ca != "" {
		r.set("client-ca", ca, "GRPC_CLIENT_TLS_CACERT")
		if name := r.get("GRPC_CLIENT_TLS_SAN"); name != "" {
			r.set("client-names", "dns:"+name, "GRPC_CLIENT_TLS_SAN")
		}
	}
}

// levels are the levels of logs that Headgate has no name of its own for.
var levels = map[string]string{"trace": "debug", "warning": "warn", "fatal": "error", "panic": "error"}

func (r *reader) mapLogs() {
	level := r.choose("LOG_LEVEL", "trace", "debug", "info", "warn", "warning", "error", "fatal", "panic")
	r.set("log-level", cmp.Or(levels[level], level), "LOG_LEVEL")
	r.set("log-format", r.choose("LOG_FORMAT", "text", "json"), "LOG_FORMAT")
}

// mapRules says where the rules come from, and what holds for all of them.
func (r *reader) mapRules() {
	if r.choose("CONFIG_TYPE", "FILE", "GRPC_XDS_SOTW") == "GRPC_XDS_SOTW" {
		r.mapXDS()
	} else {
		r.mapFiles()
	}
	r.flag("merge-domains", "MERGE_DOMAIN_CONFIG")
	r.flag("shadow", "SHADOW_MODE")
	r.flag("quota-mode", "QUOTA_MODE")
	r.flag("spare-denied", "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT")
	r.flag("ready-with-rules", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED")
}

// mapFiles names the directory of the rules. Whether its parent is watched too makes no
// difference: Headgate notices both.
func (r *reader) mapFiles() {
	r.set("rules", path.Join(r.get("RUNTIME_ROOT"), r.get("RUNTIME_SUBDIRECTORY"), r.get("RUNTIME_APPDIRECTORY")),
		"RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY")
	if r.values["RUNTIME_IGNOREDOTFILES"] != "" && !r.is("RUNTIME_IGNOREDOTFILES") {
		r.note("RUNTIME_IGNOREDOTFILES", "has no effect: files that begin with a dot are never read, because a ConfigMap has each of its files there a second time")
	}
	for i := range variables {
		if name := variables[i].name; r.values[name] != "" && r.values[name] != variables[i].fallback && (strings.HasPrefix(name, "CONFIG_GRPC_XDS_") || name == "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES") {
			r.note(name, "has no effect: "+noFiles)
		}
	}
}

// mapXDS names the control plane of the rules.
func (r *reader) mapXDS() {
	r.set("xds-server", r.get("CONFIG_GRPC_XDS_SERVER_URL"), "CONFIG_GRPC_XDS_SERVER_URL")
	r.set("xds-node", r.get("CONFIG_GRPC_XDS_NODE_ID"), "CONFIG_GRPC_XDS_NODE_ID")
	r.take("xds-metadata", "CONFIG_GRPC_XDS_NODE_METADATA")
	r.take("xds-headers", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS")
	if size := r.get("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES"); size != "" && size != "0" {
		r.set("xds-max-message", size, "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES")
	}
	if !r.is("CONFIG_GRPC_XDS_SERVER_USE_TLS") {
		return
	}
	r.set("xds-tls", "true", "CONFIG_GRPC_XDS_SERVER_USE_TLS")
	r.take("xds-cert", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT")
	r.take("xds-key", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY")
	r.take("xds-ca", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT")
	r.take("xds-server-name", "CONFIG_GRPC_XDS_SERVER_TLS_SAN")
}

func (r *reader) mapMetrics() {
	r.take("near-limit-ratio", "NEAR_LIMIT_RATIO")
	if r.is("USE_PROMETHEUS") {
		r.set("metrics-addr", r.get("PROMETHEUS_ADDR"), "PROMETHEUS_ADDR")
		r.set("metrics-path", r.get("PROMETHEUS_PATH"), "PROMETHEUS_PATH")
	}
	if r.wantsStatsd() && !r.is("DISABLE_STATS") {
		r.mapStatsd()
	} else if r.values["EXTRA_TAGS"] != "" {
		r.note("EXTRA_TAGS", "has no effect without USE_STATSD")
	}
}

// wantsStatsd reports whether somebody has asked for statsd. Without a word of it nothing is
// sent, where the original sends to its own machine.
func (r *reader) wantsStatsd() bool {
	given := r.values["STATSD_HOST"] != "" || r.values["STATSD_PORT"] != ""
	return r.is("USE_DOG_STATSD") || r.is("USE_STATSD") && (given || r.values["USE_STATSD"] != "")
}

// mapStatsd names the server as the libraries of the original find it: by TCP unless
// STATSD_PROTOCOL says otherwise, and for DogStatsD by UDP.
func (r *reader) mapStatsd() {
	network := "tcp"
	if protocol, _ := r.lookup("STATSD_PROTOCOL"); protocol == "udp" || r.is("USE_DOG_STATSD") {
		network = "udp"
	}
	r.set("statsd", network+"://"+net.JoinHostPort(r.get("STATSD_HOST"), r.get("STATSD_PORT")), "STATSD_HOST", "STATSD_PORT")
	r.set("statsd-interval", r.get("STATS_FLUSH_INTERVAL"), "STATS_FLUSH_INTERVAL")
	r.take("statsd-tags", "EXTRA_TAGS")
	if r.is("USE_DOG_STATSD") {
		r.set("statsd-format", "dogstatsd")
	}
}

func (r *reader) mapAnswers() {
	r.flag("rls-metadata", "RESPONSE_DYNAMIC_METADATA")
	if !r.is("LIMIT_RESPONSE_HEADERS_ENABLED") {
		return
	}
	r.set("rls-headers", "envoy")
	r.take("rls-limit-header", "LIMIT_LIMIT_HEADER")
	r.take("rls-remaining-header", "LIMIT_REMAINING_HEADER")
	r.take("rls-reset-header", "LIMIT_RESET_HEADER")
}

func (r *reader) mapTracing() {
	if !r.is("TRACING_ENABLED") {
		return
	}
	if r.choose("TRACING_EXPORTER_PROTOCOL", "http", "grpc") == "grpc" {
		r.refuse("TRACING_EXPORTER_PROTOCOL", "spans are sent by OTLP over HTTP", "http, and the port of it at the collector, 4318 as a rule")
	}
	endpoint, from := "http://localhost:4318", ""
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		if value, ok := r.lookup(name); ok && value != "" {
			endpoint, from = strings.TrimSuffix(value, "/v1/traces"), name
		}
	}
	r.set("trace-endpoint", endpoint, from)
	r.set("trace-ratio", r.get("TRACING_SAMPLING_RATE"), "TRACING_SAMPLING_RATE")
}

// take sets a flag to what was given; the default of a variable is none.
func (r *reader) take(flag, name string) {
	if value := r.values[name]; value != "" {
		r.set(flag, value, name)
	}
}

// flag sets a flag where a boolean is true, and remembers the boolean where it is not.
func (r *reader) flag(flag, name string) {
	if !r.is(name) {
		r.switches[flag] = name
		return
	}
	r.set(flag, "true", name)
}
