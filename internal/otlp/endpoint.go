// Package otlp says where a collector of OTLP over HTTP (OpenTelemetry Protocol 1.x) is, and how
// to call it: by a setting of Headgate, or by the variables of the environment that
// OpenTelemetry's specification names. It sends nothing itself.
package otlp

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// SendTimeout bounds one try to send something, where nothing else is said.
	SendTimeout = 10 * time.Second
	// MaxAnswer bounds what is read of an answer, and MaxError what is told of it, in bytes.
	MaxAnswer, MaxError = 64 << 10, 512
	// shortestSecret is how long the value of a header field is at least that may be one: what is
	// shorter, such as the number of a tenant, stands in much that is no secret.
	shortestSecret = 6
	// idleTimeout is how long an unused connection is kept.
	idleTimeout = 90 * time.Second
)

// Paths where OTLP has traces and metrics.
const TracesPath, MetricsPath = "/v1/traces", "/v1/metrics"

// Endpoint is where something goes. Make one with ParseEndpoint.
type Endpoint struct {
	secure     bool
	host, path string
	header     map[string]string
	// secrets are what no error may tell.
	secrets []string
	// Client sends to it, and nowhere else.
	Client *http.Client
}

// ParseEndpoint reads the URL of a collector; without a path it is the one given. Errors do not hold
// it, because it may have a password.
func ParseEndpoint(raw, path string) (*Endpoint, error) {
	fail := func(problem string) (*Endpoint, error) {
		return nil, errors.New(problem + "; hint: http://host:4318, or https://host/path")
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
	to := &Endpoint{secure: u.Scheme == "https", host: u.Host, path: u.Path, header: map[string]string{}}
	if to.path == "" || to.path == "/" {
		to.path = path
	}
	if u.User != nil {
		password, _ := u.User.Password()
		credentials := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		to.header["Authorization"] = "Basic " + credentials
		to.hide(credentials, password)
	}
	to.Client = &http.Client{
		Transport: &http.Transport{IdleConnTimeout: idleTimeout, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, TLSHandshakeTimeout: SendTimeout},
		Timeout:   SendTimeout,
		// What is sent, and passwords, go where the operator has said, and nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return to, nil
}

// Secure has the server checked by settings.
func (e *Endpoint) Secure(settings *tls.Config) {
	e.Client.Transport.(*http.Transport).TLSClientConfig = settings
}

// AddHeader has fields sent, whose values are told by no error. Those that are there stay.
func (e *Endpoint) AddHeader(fields map[string]string) {
	for name, value := range fields {
		if name = http.CanonicalHeaderKey(name); e.header[name] == "" {
			e.header[name] = value
			if len(value) >= shortestSecret {
				e.hide(value)
			}
		}
	}
}

// Header returns the fields that are sent.
func (e *Endpoint) Header() map[string]string { return e.header }

// Host returns where the collector is, for messages.
func (e *Endpoint) Host() string { return e.host }

// URL returns the address without what is secret.
func (e *Endpoint) URL() string {
	scheme := "http"
	if e.secure {
		scheme = "https"
	}
	return (&url.URL{Scheme: scheme, Host: e.host, Path: e.path}).String()
}

// hide has errors tell none of these, however they are written.
func (e *Endpoint) hide(secrets ...string) {
	for _, secret := range secrets {
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
			if form != "" {
				e.secrets = append(e.secrets, form, "(hidden)")
			}
		}
	}
}

// Told returns err as it may be told: bounded, because the collector's answer is in it, and
// without secrets.
func (e *Endpoint) Told(err error) error {
	s := strings.NewReplacer(e.secrets...).Replace(err.Error())
	if len(s) > MaxError {
		s = strings.ToValidUTF8(s[:MaxError], "") + "…"
	}
	return errors.New(s)
}
