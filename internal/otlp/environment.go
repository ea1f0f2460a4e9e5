package otlp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/tlsfile"
)

// Environment is what the variables of OpenTelemetry's specification say of metrics ("OpenTelemetry
// Environment Variable Specification" and "OpenTelemetry Protocol Exporter", 1.x). Of a variable
// for all signals and one for metrics the latter counts. The zero value says nothing.
type Environment struct {
	// Asks says that metrics are to be sent: a collector of metrics is named, or one of all
	// signals and OTEL_METRICS_EXPORTER=otlp. One of all signals alone does not ask, because it
	// is mostly there for traces.
	Asks bool
	// Endpoint is the URL that metrics go to; "" where none is asked for, or it is wrong.
	Endpoint string
	// Header are fields that are sent.
	Header map[string]string
	// Timeout bounds one message, Interval is the time between two; 0 where nothing is said.
	Timeout, Interval time.Duration
	// Plain says that messages are not compressed.
	Plain bool
	// TLS is how the server is checked; nil where nothing is said.
	TLS *tls.Config
	// Resource are attributes of the process, service.name among them where it is said.
	Resource map[string]string
}

const (
	// maxPairs bounds the header fields and the attributes that are read.
	maxPairs = 64
	// maxWait bounds the times that variables may name.
	maxWait = 24 * time.Hour
)

// variables read the environment for metrics.
type variables struct {
	getenv func(string) string
	wrong  []error
}

// ReadEnvironment reads the variables. The error says what is wrong with which of them, without
// the value of one that may be secret; what is good is read all the same.
func ReadEnvironment(getenv func(string) string) (Environment, error) {
	v := &variables{getenv: getenv}
	e := Environment{
		Asks:     v.asks(),
		Header:   v.pairs(v.signal("HEADERS")),
		Timeout:  v.milliseconds(v.signal("TIMEOUT")),
		Interval: v.milliseconds("OTEL_METRIC_EXPORT_INTERVAL"),
		Plain:    v.plain(),
		TLS:      v.tls(),
		Resource: v.pairs("OTEL_RESOURCE_ATTRIBUTES"),
	}
	if e.Asks {
		e.Endpoint = v.endpoint()
	}
	if name := getenv("OTEL_SERVICE_NAME"); name != "" {
		if e.Resource == nil {
			e.Resource = map[string]string{}
		}
		e.Resource["service.name"] = name
	}
	if want := strings.ToLower(getenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE")); want != "" && want != "cumulative" {
		v.wrong = append(v.wrong, errors.New("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: counters are sent as they stand (cumulative) and not otherwise; hint: leave it out, and have the collector convert them"))
	}
	return e, errors.Join(v.wrong...)
}

// signal returns the name of the variable that counts for metrics.
func (v *variables) signal(name string) string {
	if own := "OTEL_EXPORTER_OTLP_METRICS_" + name; v.getenv(own) != "" {
		return own
	}
	return "OTEL_EXPORTER_OTLP_" + name
}

func (v *variables) fail(name, problem string) {
	v.wrong = append(v.wrong, errors.New(name+": "+problem))
}

// asks reports whether metrics are to be sent.
func (v *variables) asks() bool {
	exporter := v.getenv("OTEL_METRICS_EXPORTER")
	switch {
	case strings.EqualFold(v.getenv("OTEL_SDK_DISABLED"), "true"), exporter != "" && exporter != "otlp":
		return false
	case v.getenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") != "":
		return true
	}
	return exporter == "otlp" && v.getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != ""
}

// endpoint returns where metrics go. That for all signals is a base, to which the path is
// added; that for metrics is the whole address.
func (v *variables) endpoint() string {
	name := v.signal("ENDPOINT")
	raw := v.getenv(name)
	if protocol := v.getenv(v.signal("PROTOCOL")); protocol != "" && protocol != "http/protobuf" {
		v.fail(v.signal("PROTOCOL"), fmt.Sprintf("%.20q is not spoken; hint: http/protobuf, mostly at port 4318", protocol))
		return ""
	}
	if !strings.HasSuffix(name, "METRICS_ENDPOINT") {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" {
			v.fail(name, "not a URL; hint: http://host:4318")
			return ""
		}
		raw = u.JoinPath(MetricsPath).String()
	}
	if _, err := ParseEndpoint(raw, "/"); err != nil {
		v.fail(name, err.Error())
		return ""
	}
	return raw
}

// pairs reads name=value,name=value, whose values are percent-encoded. Errors hold no value.
func (v *variables) pairs(name string) map[string]string {
	text := v.getenv(name)
	if strings.TrimSpace(text) == "" {
		return nil
	}
	parts := strings.Split(text, ",")
	if len(parts) > maxPairs {
		v.fail(name, fmt.Sprintf("%d pairs; hint: at most %d", len(parts), maxPairs))
		return nil
	}
	pairs := map[string]string{}
	for i, part := range parts {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, raw, found := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		value, err := url.PathUnescape(strings.TrimSpace(raw))
		if !found || key == "" || err != nil || strings.ContainsFunc(key+value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			v.fail(name, fmt.Sprintf("pair %d is not name=value; hint: name=value,name=value, with %%2C for a comma in a value", i+1))
			return nil
		}
		pairs[key] = value
	}
	return pairs
}

// milliseconds reads a time; 0 is none.
func (v *variables) milliseconds(name string) time.Duration {
	text := v.getenv(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > int64(maxWait/time.Millisecond) {
		v.fail(name, fmt.Sprintf("%.20q is no number of milliseconds from 1 to %d", text, maxWait/time.Millisecond))
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// plain reports whether nothing is compressed.
func (v *variables) plain() bool {
	name := v.signal("COMPRESSION")
	switch text := v.getenv(name); text {
	case "", "gzip":
		return false
	case "none":
		return true
	default:
		v.fail(name, fmt.Sprintf("%.20q; hint: gzip or none", text))
		return false
	}
}

// tls reads the files of certificates. The server's is for the host that is dialled.
func (v *variables) tls() *tls.Config {
	ca, cert, key := v.signal("CERTIFICATE"), v.signal("CLIENT_CERTIFICATE"), v.signal("CLIENT_KEY")
	files := tlsfile.Files{CA: v.getenv(ca), Cert: v.getenv(cert), Key: v.getenv(key)}
	if files == (tlsfile.Files{}) {
		return nil
	}
	source, err := tlsfile.Load(files)
	if err != nil {
		v.fail(strings.Join([]string{ca, cert, key}, ", "), err.Error())
		return nil
	}
	return source.Client("")
}
