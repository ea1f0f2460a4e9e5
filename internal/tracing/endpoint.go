package tracing

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
)

const (
	// sendTimeout bounds one try to send a batch, and retryFor all of them: a collector
	// that says it is busy is asked again, one that is not there is not.
	sendTimeout = 10 * time.Second
	retryFor    = 15 * time.Second
	// firstPause and maxPause are between tries.
	firstPause, maxPause = 500 * time.Millisecond, 5 * time.Second
	// maxAnswer bounds what is read of an answer, and maxError what is told of it, in
	// bytes.
	maxAnswer, maxError = 64 << 10, 512
	// idleTimeout is how long an unused connection is kept.
	idleTimeout = 90 * time.Second
)

// tracesPath is where OTLP has traces.
const tracesPath = "/v1/traces"

// endpoint is where spans go.
type endpoint struct {
	secure     bool
	host, path string
	// authorization is "" or that of a user.
	authorization string
	// secrets are what no error may tell.
	secrets *strings.Replacer
	client  *http.Client
}

// parseEndpoint reads the URL of a collector. Errors do not hold it, since it may have a
// password.
func parseEndpoint(raw string) (*endpoint, error) {
	fail := func(problem string) (*endpoint, error) {
		return nil, errors.New("trace endpoint: " + problem + "; hint: http://host:4318, or https://host/path")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return fail("not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return fail("neither http nor https")
	case u.Hostname() == "":
		return fail("no host")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return fail("a query or a fragment has no meaning there")
	}
	to := &endpoint{secure: u.Scheme == "https", host: u.Host, path: u.Path, secrets: strings.NewReplacer()}
	if to.path == "" || to.path == "/" {
		to.path = tracesPath
	}
	if u.User != nil {
		password, _ := u.User.Password()
		credentials := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		to.authorization = "Basic " + credentials
		to.secrets = hide(credentials, password, url.QueryEscape(password), url.PathEscape(password))
	}
	to.client = &http.Client{
		Transport: &http.Transport{IdleConnTimeout: idleTimeout, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, TLSHandshakeTimeout: sendTimeout},
		Timeout:   sendTimeout,
		// Spans and passwords go where the operator has said, and nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return to, nil
}

// hide returns a replacer of secrets.
func hide(secrets ...string) *strings.Replacer {
	var pairs []string
	for _, secret := range secrets {
		if secret != "" {
			pairs = append(pairs, secret, "(hidden)")
		}
	}
	return strings.NewReplacer(pairs...)
}

// exporter returns what sends to the endpoint. All that its environment variables could
// say is said here, so that settings have one place.
func (e *endpoint) exporter() (*otlptrace.Exporter, error) {
	headers := map[string]string{}
	if e.authorization != "" {
		headers["Authorization"] = e.authorization
	}
	scheme := "http"
	if e.secure {
		scheme = "https"
	}
	exporter, err := otlptracehttp.New(context.Background(),
		otlptracehttp.WithEndpointURL((&url.URL{Scheme: scheme, Host: e.host, Path: e.path}).String()),
		otlptracehttp.WithHTTPClient(e.client),
		otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithTimeout(sendTimeout),
		otlptracehttp.WithMaxResponseSize(maxAnswer),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstPause, MaxInterval: maxPause, MaxElapsedTime: retryFor}),
	)
	if err != nil {
		return nil, fmt.Errorf("trace endpoint: %w", e.told(err))
	}
	return exporter, nil
}

// told returns err as it may be told: bounded, since the collector's answer is in it, and
// without secrets.
func (e *endpoint) told(err error) error {
	s := e.secrets.Replace(err.Error())
	if len(s) > maxError {
		s = strings.ToValidUTF8(s[:maxError], "") + "…"
	}
	return errors.New(s)
}
