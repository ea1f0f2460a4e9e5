package envoyenv

import "testing"

// Where what is sent goes to, and what is listened on, by several variables that meet.
func TestAddresses(t *testing.T) {
	const all, traces = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	for name, tt := range map[string]struct {
		environment map[string]string
		flag, want  string
	}{
		"DogStatsD by UDP":            {map[string]string{"USE_DOG_STATSD": "true", "STATSD_HOST": "h"}, "statsd", "udp://h:8125"},
		"DogStatsD, whatever is said": {map[string]string{"USE_DOG_STATSD": "true", "STATSD_HOST": "h", "STATSD_PROTOCOL": "tcp"}, "statsd", "udp://h:8125"},
		"statsd by TCP":               {map[string]string{"USE_STATSD": "true", "STATSD_HOST": "h"}, "statsd", "tcp://h:8125"},
		"spans go where spans go":     {map[string]string{"TRACING_ENABLED": "true", all: "http://all:4318", traces: "http://spans:4318/v1/traces"}, "trace-endpoint", "http://spans:4318"},
		"spans go where all goes":     {map[string]string{"TRACING_ENABLED": "true", all: "http://all:4318"}, "trace-endpoint", "http://all:4318"},
		"IPv6 with brackets":          {map[string]string{"GRPC_HOST": "[::1]", "GRPC_PORT": "9"}, "grpc-addr", "[::1]:9"},
		"IPv6 without":                {map[string]string{"GRPC_HOST": "::1", "GRPC_PORT": "9"}, "grpc-addr", "[::1]:9"},
	} {
		if got := read(t, tt.environment).Settings[tt.flag]; got != tt.want {
			t.Errorf("%s: %s is %q, want %q", name, tt.flag, got, tt.want)
		}
	}
}
