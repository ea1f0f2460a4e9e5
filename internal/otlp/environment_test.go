package otlp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// environ returns the variables of a map.
func environ(m map[string]string) func(string) string {
	return func(name string) string { return m[name] }
}

func TestReadEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		want Environment
	}{
		{"nothing", nil, Environment{}},
		{"a base that may be for traces", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, Environment{}},
		{"a base", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_METRICS_EXPORTER": "otlp"}, Environment{Asks: true, Endpoint: "http://c:4318/v1/metrics"}},
		{"a base with a path", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c/otlp/", "OTEL_METRICS_EXPORTER": "otlp"}, Environment{Asks: true, Endpoint: "https://c/otlp/v1/metrics"}},
		{"that of metrics is the whole address", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://other", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/in"}, Environment{Asks: true, Endpoint: "http://c:4318/in"}},
		{"disabled", map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "TRUE"}, Environment{}},
		{"another exporter", map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c", "OTEL_METRICS_EXPORTER": "none"}, Environment{}},
		{"all the rest", map[string]string{
			"OTEL_EXPORTER_OTLP_HEADERS": "x=for+all", "OTEL_EXPORTER_OTLP_METRICS_HEADERS": " api-key = a%2Cb%20c , tenant=7,", "OTEL_EXPORTER_OTLP_TIMEOUT": "1500",
			"OTEL_METRIC_EXPORT_INTERVAL": "5000", "OTEL_EXPORTER_OTLP_COMPRESSION": "none", "OTEL_RESOURCE_ATTRIBUTES": "region=fra,service.name=b", "OTEL_SERVICE_NAME": "gate",
			"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "cumulative",
		}, Environment{Header: map[string]string{"api-key": "a,b c", "tenant": "7"}, Timeout: 1500 * time.Millisecond, Interval: 5 * time.Second, Plain: true,
			Resource: map[string]string{"region": "fra", "service.name": "gate"}}},
		{"a name alone", map[string]string{"OTEL_SERVICE_NAME": "gate"}, Environment{Resource: map[string]string{"service.name": "gate"}}},
		{"the longest times", map[string]string{"OTEL_EXPORTER_OTLP_TIMEOUT": "86400000", "OTEL_METRIC_EXPORT_INTERVAL": "86400000"}, Environment{Timeout: 24 * time.Hour, Interval: 24 * time.Hour}},
		{"as many pairs as there may be", map[string]string{"OTEL_RESOURCE_ATTRIBUTES": strings.Repeat("a=b,", maxPairs-1) + "a=c"}, Environment{Resource: map[string]string{"a": "c"}}},
	} {
		if got, err := ReadEnvironment(environ(tt.env)); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

// TestBadEnvironment: each variable is named, and no secret is told.
func TestBadEnvironment(t *testing.T) {
	pem, large := filepath.Join(t.TempDir(), "none.pem"), filepath.Join(t.TempDir(), "large.pem")
	if err := errors.Join(os.WriteFile(pem, []byte("nothing"), 0o600), os.WriteFile(large, make([]byte, 1<<20+1), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317", "OTEL_METRICS_EXPORTER": "otlp"}, "OTEL_EXPORTER_OTLP_ENDPOINT: not a URL; hint:"},
		{map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://u:hunter2@c/?a"}, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: a query or a fragment"},
		{map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, `OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" is not spoken; hint: http/protobuf`},
		{map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "key=hunter2,nothing"}, "OTEL_EXPORTER_OTLP_HEADERS: pair 2 is not name=value"},
		{map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "key=hunter2%zz"}, "OTEL_EXPORTER_OTLP_HEADERS: pair 1 is not name=value"},
		{map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "key=hunter2%0d%0aHost: x"}, "OTEL_EXPORTER_OTLP_HEADERS: pair 1 is not name=value"},
		{map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "key=hunter2%7f"}, "OTEL_EXPORTER_OTLP_HEADERS: pair 1 is not name=value"},
		{map[string]string{"OTEL_RESOURCE_ATTRIBUTES": strings.Repeat("a=b,", maxPairs)}, "OTEL_RESOURCE_ATTRIBUTES: 65 pairs; hint: at most 64"},
		{map[string]string{"OTEL_METRIC_EXPORT_INTERVAL": "5s"}, `OTEL_METRIC_EXPORT_INTERVAL: "5s" is no number of milliseconds`},
		{map[string]string{"OTEL_METRIC_EXPORT_INTERVAL": "86400001"}, `OTEL_METRIC_EXPORT_INTERVAL: "86400001" is no number of milliseconds`},
		{map[string]string{"OTEL_EXPORTER_OTLP_TIMEOUT": "0"}, `OTEL_EXPORTER_OTLP_TIMEOUT: "0" is no number of milliseconds from 1`},
		{map[string]string{"OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": "zstd"}, `OTEL_EXPORTER_OTLP_METRICS_COMPRESSION: "zstd"; hint: gzip or none`},
		{map[string]string{"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta"}, "as they stand (cumulative)"},
		{map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": pem}, "OTEL_EXPORTER_OTLP_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY: " + pem + ": no certificate in it; hint: "},
		{map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": pem + ".absent"}, "OTEL_EXPORTER_OTLP_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY: stat "},
		{map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": large}, "OTEL_EXPORTER_OTLP_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY: read " + large + ": more than 1048576 bytes; hint: "},
		{map[string]string{"OTEL_EXPORTER_OTLP_CLIENT_KEY": pem}, "OTEL_EXPORTER_OTLP_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY: a certificate without its key, or a key without its certificate; hint: "},
		{map[string]string{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": pem}, "OTEL_EXPORTER_OTLP_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY: a certificate without its key, or a key without its certificate; hint: "},
	} {
		_, err := ReadEnvironment(environ(tt.env))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v, want %q", tt.env, err, tt.want)
		}
	}
}

// TestCertificates: a collector that wants one of its callers is reached with the files that
// variables name, and is not without one of them.
func TestCertificates(t *testing.T) {
	certs := testserver.NewCertificates(t)
	clientCert, clientKey := certs.Issue(t, testserver.Leaf{CommonName: "gate"})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	pair, err := tls.LoadX509KeyPair(certs.CertFile, certs.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	ask := func(env map[string]string) (string, error) {
		e, err := ReadEnvironment(environ(env))
		if err != nil {
			t.Fatal(err)
		}
		to, err := ParseEndpoint(server.URL, MetricsPath)
		if err != nil {
			t.Fatal(err)
		}
		to.Secure(e.TLS)
		defer to.Client.CloseIdleConnections()
		answer, err := to.Client.Get(to.URL())
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return string(text), err
	}
	all := map[string]string{
		"OTEL_EXPORTER_OTLP_CERTIFICATE": certs.CAFile, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": clientCert, "OTEL_EXPORTER_OTLP_CLIENT_KEY": clientKey,
	}
	if name, err := ask(all); err != nil || name != "gate" {
		t.Errorf("called by %q, %v", name, err)
	}
	if _, err := ask(map[string]string{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": clientCert, "OTEL_EXPORTER_OTLP_CLIENT_KEY": clientKey}); err == nil {
		t.Error("a server of an unknown authority is believed")
	}
	if _, err := ask(map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": certs.CAFile}); err == nil {
		t.Error("a caller without a certificate is answered")
	}
}

// FuzzEnvironment: whatever is set, what is read is bounded and fit for a header, and no value of
// one is in an error.
func FuzzEnvironment(f *testing.F) {
	f.Add("http://c:4318", "api-key=hunter2secret", "60000", "a=b")
	f.Add("c:1", "=,=,", "-1", "a%3")
	f.Fuzz(func(t *testing.T, endpoint, headers, interval, resource string) {
		e, err := ReadEnvironment(environ(map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_HEADERS": headers, "OTEL_METRIC_EXPORT_INTERVAL": interval, "OTEL_RESOURCE_ATTRIBUTES": resource,
		}))
		for value := range maps.Values(e.Header) {
			if strings.ContainsAny(value, "\r\n") {
				t.Errorf("%q", value)
			}
		}
		if e.Interval < 0 || e.Interval > maxWait || len(e.Header) > maxPairs || len(e.Resource) > maxPairs {
			t.Errorf("%+v", e)
		}
		if err != nil && strings.Contains(headers, "hunter2secret") && strings.Contains(err.Error(), "hunter2secret") {
			t.Error(err)
		}
		if e.Endpoint != "" {
			if _, err := ParseEndpoint(e.Endpoint, MetricsPath); err != nil {
				t.Errorf("%q: %v", e.Endpoint, err)
			}
		}
	})
}
