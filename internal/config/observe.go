package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/ascii"
)

// Observing are the settings of what is told of decisions: metrics, traces, log lines,
// top keys, and events.
type Observing struct {
	NodeName     string `group:"watch" placeholder:"NAME" help:"Name of this node in events, traces and the dashboard. Default: the name of the host."`
	Layer        string `group:"watch" enum:",edge,gateway,backend" default:"" placeholder:"edge|gateway|backend" help:"Where this process stands: edge, gateway or backend. It becomes the label layer of all metrics. Default: none."`
	EnvoyMetrics bool   `group:"watch" help:"Serve metrics under the names of envoyproxy/ratelimit as well (ratelimit_service_*), for its dashboards."`
	PlainMetrics bool   `group:"watch" help:"Serve metrics under plain names as well (allowed_total, limited_total, ratelimit_*, retry_after_ms)."`

	DenialLines int `group:"logs" default:"1" placeholder:"N" help:"Denials of one rule to log in a minute, with what was used and why; 0 for none. Keys are hashed. Default ${default}."`

	TopKeys        int     `group:"watch" default:"64" placeholder:"N" help:"Keys of one rule that are told apart to find those with the most requests and denials; 0 for none. A key with more than 1/N of the requests of its rule is found. Default ${default}."`
	AccuracySample float64 `group:"watch" default:"0.001" placeholder:"SHARE" help:"Share of keys whose decisions are compared with an exact log of what was admitted, which costs the store another bucket for each of them; 0 for none. Default ${default}."`

	// AuditFiles and AuditKafka are where events go; with neither (the default) they go to
	// files in StateDir, where there is one, and else the latest are kept in memory alone.
	// "none" writes no files.
	AuditFiles   StoreURL `group:"audit" placeholder:"URL" help:"Directory that events of decisions are written to: file:///var/log/headgate/events. ?max_size=64MiB&max_age=1h&keep=168h&fsync=1s are some of what docs/audit.md lists; 'none' writes none. Default: events in --state-dir, up to 256 MiB, where there is one and no --audit-kafka; else none."`
	AuditKafka   StoreURL `group:"audit" placeholder:"URL" help:"Topic that events of decisions are sent to: kafka://host:port,host:port/topic; ?tls=true&sasl=scram-sha-256 are some of what docs/audit.md lists. Default: none."`
	AuditSample  float64  `group:"audit" default:"0.01" placeholder:"SHARE" help:"Share of allowed requests that become events; denied and degraded ones always do. Default ${default}."`
	AuditBuffer  int      `group:"audit" default:"65536" placeholder:"N" help:"Events that may wait to be written; more are dropped and counted. No decision waits. Default ${default}."`
	AuditKeys    string   `group:"audit" enum:"hashed,plain" default:"hashed" help:"Keys in events that are written: hashed (by --audit-hash-key), or plain. Keys of APIs and addresses are among them. Default ${default}."`
	AuditHashKey string   `group:"audit" placeholder:"FILE" help:"The key that keys in events, logs and lists of top keys are hashed by, 16 bytes or more ('openssl rand -base64 32'); give the same to all nodes, so that their hashes agree. Default: one that is drawn at start."`

	DecisionID string `group:"answers" name:"decision-id" placeholder:"HEADER" help:"Header field over HTTP that names the event of a decision, where there is one, such as X-Decision-Id. Default: none."`

	TraceEndpoint StoreURL `group:"watch" placeholder:"URL" help:"Collector that gets a span of each decision whose caller records one, by OTLP over HTTP: http://127.0.0.1:4318. Default: off."`
	TraceRatio    float64  `group:"watch" default:"0" placeholder:"SHARE" help:"Share of the requests which bring no trace that begin one. Requests that bring one follow it. Default ${default}."`

	MetricsEndpoint StoreURL      `group:"watch" placeholder:"URL" help:"Collector that all metrics are sent to, by OTLP over HTTP: http://127.0.0.1:4318; beside what Prometheus asks for. Variables of OpenTelemetry such as OTEL_EXPORTER_OTLP_HEADERS are heeded. Default: OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, or OTEL_EXPORTER_OTLP_ENDPOINT where OTEL_METRICS_EXPORTER is otlp, or off."`
	MetricsInterval time.Duration `group:"watch" default:"0" placeholder:"TIME" help:"Time between two exports of metrics. Default 0: OTEL_METRIC_EXPORT_INTERVAL, or 60s."`
}

const (
	maxDenialLines, maxTopKeys     = 1000, 1024
	minAuditBuffer, maxAuditBuffer = 16, 1 << 22
	maxHeader, maxName             = 64, 255
	// An interval of less than a second would cost more than it shows.
	minMetricsInterval, maxMetricsInterval = time.Second, time.Hour
)

func (o *Observing) validate() error {
	return errors.Join(
		within("denial-lines", o.DenialLines, 0, maxDenialLines),
		within("top-keys", o.TopKeys, 0, maxTopKeys),
		share("accuracy-sample", o.AccuracySample),
		share("audit-sample", o.AuditSample),
		within("audit-buffer", o.AuditBuffer, minAuditBuffer, maxAuditBuffer),
		share("trace-ratio", o.TraceRatio),
		o.validateFiles(),
		o.AuditKafka.checkScheme("audit-kafka", "kafka"),
		o.TraceEndpoint.checkScheme("trace-endpoint", "http", "https"),
		refuse(o.TraceEndpoint == (StoreURL{}) && o.TraceRatio > 0, "--trace-ratio: there is no collector for traces; hint: --trace-endpoint URL"),
		o.MetricsEndpoint.checkScheme("metrics-endpoint", "http", "https"),
		between("metrics-interval", cmp.Or(o.MetricsInterval, minMetricsInterval), minMetricsInterval, maxMetricsInterval),
		refuse(o.DecisionID != "" && !isHeader(o.DecisionID), "--decision-id: not the name of a header field; hint: letters, digits and dashes, at most %d", maxHeader),
		refuse(len(o.NodeName) > maxName || strings.ContainsFunc(o.NodeName, func(r rune) bool { return r <= ' ' || r == 0x7f }),
			"--node-name: blanks and control characters are not for names, nor more than %d bytes", maxName),
	)
}

func (o *Observing) validateFiles() error {
	if o.AuditFiles.None() {
		return nil
	}
	return o.AuditFiles.checkScheme("audit-files", "file")
}

// checkScheme is check for a URL of one of schemes; none is in order.
func (u StoreURL) checkScheme(name string, schemes ...string) error {
	if u.raw == "" {
		return nil
	}
	if !slices.Contains(schemes, u.Scheme()) {
		return fmt.Errorf("--%s: unknown kind of place; hint: the URL begins with %s://", name, strings.Join(schemes, "://, "))
	}
	if _, err := url.Parse(u.raw); err != nil {
		return fmt.Errorf("--%s: not a URL; hint: write special characters of a password as %%XX, '@' as %%40, '/' as %%2F, ':' as %%3A", name)
	}
	return nil
}

// isHeader reports whether s may name a header field of ours.
func isHeader(s string) bool { return len(s) <= maxHeader && ascii.Only(s, "-") }

// Dashboard are the settings of the web dashboard.
type Dashboard struct {
	DashboardAddr    string `group:"admin" placeholder:"ADDR" help:"Address of the web dashboard: host:port, or unix:///path. Who may log in is who has a token of --admin-tokens. Default: off."`
	DashboardTLSCert string `group:"admin" placeholder:"FILE" help:"Certificate chain in PEM, to serve the dashboard over HTTPS. Read again when it changes."`
	DashboardTLSKey  string `group:"admin" placeholder:"FILE" help:"Key of --dashboard-tls-cert in PEM."`
	// DashboardClientCA is beside logins: a certificate lets nobody in by itself.
	DashboardClientCA string        `group:"admin" placeholder:"FILE" help:"Authorities in PEM: every browser that opens the dashboard must have a certificate that one of them has signed. People still log in. Read again when it changes."`
	DashboardSession  time.Duration `group:"admin" default:"12h" help:"How long a login to the dashboard lasts."`
	// DashboardOIDC are logins by an issuer, beside tokens.
	DashboardOIDC `embed:""`
}

const maxSession = 30 * 24 * time.Hour

func (d *Dashboard) validate(tokens string) error {
	if d.DashboardAddr == "" {
		return unused("dashboard-addr", "no dashboard is served", given{"dashboard-tls-cert", d.DashboardTLSCert != ""}, given{"dashboard-tls-key", d.DashboardTLSKey != ""}, given{"dashboard-client-ca", d.DashboardClientCA != ""},
			given{"dashboard-oidc-issuer", d.OIDCIssuer != ""})
	}
	return errors.Join(
		d.DashboardOIDC.validate(),
		address("dashboard-addr", d.DashboardAddr),
		between("dashboard-session", d.DashboardSession, time.Minute, maxSession),
		refuse(tokens == "", "--admin-tokens: nobody could log in to the dashboard; hint: `headgate admin token NAME --scope write`"),
		alone("dashboard-tls", d.DashboardTLSCert, d.DashboardTLSKey),
		refuse(d.DashboardClientCA != "" && d.DashboardTLSCert == "", "--dashboard-client-ca: certificates of browsers need TLS; hint: --dashboard-tls-cert and --dashboard-tls-key"),
	)
}
