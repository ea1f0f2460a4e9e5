// Package config holds the settings of the headgate process.
//
// One struct is the definition of every setting: its field is the value, its
// tags are the flag, the default and the help. The same name serves the command
// line (--http-addr), the environment (HEADGATE_HTTP_ADDR) and the file given
// with --config (http-addr: ...). The command line wins over the environment,
// the environment over the file, and the file over the default. What a setting is
// for stands in its help, and what it may be in validate: a comment says more alone.
//
// Settings are read once, at start. The package reads no rules and opens
// nothing.
package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"
)

// EnvPrefix begins the name of every environment variable that is a setting.
const EnvPrefix = "HEADGATE"

// Settings are those of every way to serve: `headgate serve` and `headgate
// proxy`. The zero value is not usable: the defaults stand in the tags and are
// filled in by the command line parser.
type Settings struct {
	// Rules is a file, or a directory that is read with its subdirectories.
	// Empty means no rules: only limits that callers name are decided.
	Rules         string        `group:"rules" placeholder:"FILE_OR_DIR" help:"Rule file, or a directory of rule files. Changes are picked up while serving."`
	Compat        string        `group:"rules" enum:",envoy" default:"" placeholder:"envoy" help:"Defaults of another service for rules that do not say otherwise: 'envoy' means fixed windows, and denied hits count, as in envoyproxy/ratelimit. Default: none."`
	FailureMode   string        `group:"rules" enum:"open,closed,local,open_unbounded" default:"open" help:"What the rules that do not say failure_mode do while the store cannot decide. Rules that are sensitive fail closed. Default ${default}."`
	MergeDomains  bool          `group:"rules" help:"Let several rule files add to the same domain, instead of refusing the second one."`
	RowsDomain    string        `group:"rules" default:"api" placeholder:"DOMAIN" help:"Domain of the rules that stand as rows in the table rate_limit_rules of --tenants. Default ${default}."`
	AllowRuleDrop bool          `group:"rules" help:"Accept a reload that drops most of the rules in force. By default it is refused, because a half-mounted directory looks just like that."`
	RulesPoll     time.Duration `group:"rules" default:"10s" help:"How often to compare the rule files with those in force, should the operating system not report a change."`
	StateDir      string        `group:"rules" placeholder:"DIR" help:"Directory in which the last good rules, the last known number of nodes, what was answered in the last week and, unless --audit-files or --audit-kafka says otherwise, events of decisions are kept. The rules are used when the rule files are bad at start, the number until the store tells how many nodes there are."`
	Shadow        bool          `group:"rules" help:"Decide and report, but let every request pass."`

	Store          StoreURL      `group:"store" default:"memory://" placeholder:"URL" help:"Where counters live: memory:// (this process; ?max_bytes=256MiB), redis://[user:password@]host:port/db, unix:///path/to/redis.sock, redis+sentinel://host:port,host:port/db?master=NAME, redis+cluster://host:port,host:port (rediss instead of redis is TLS), or memcached://host:port,host:port. ?prefix=shop: and ?password_file=FILE are for all but memory, ?ca=FILE&cert=FILE&key=FILE&server_name=NAME for TLS (memcached: tls=true); docs/operations.md lists them. Default ${default}."`
	StorePerSecond StoreURL      `group:"store" name:"store-per-second" placeholder:"URL" help:"Another store for limits per second, which make most of the load and need no durability. Default: --store."`
	Stores         string        `group:"store" placeholder:"FILE" help:"YAML file of further stores, each with a name, for rules and domains that say store: NAME. Read at start."`
	Regions        string        `group:"store" placeholder:"FILE" help:"YAML file of the regions that there are, the same in all of them, for rules that say regions: leased or shared. Read at start."`
	Region         string        `group:"store" placeholder:"NAME" help:"Which of the regions of --regions this process is in."`
	StoreBudget    time.Duration `group:"store" default:"20ms" help:"Longest wait for the store. Past it the failure mode of the rule answers, marked degraded."`

	// BreakerFailures, BreakerRatio, BreakerSlow and BreakerPause are when a
	// server of the store is not asked for a while; see package breaker. The
	// default values are 3, 0.5, half of StoreBudget (0) and 1s.
	BreakerFailures int           `group:"store" default:"3" placeholder:"N" help:"Failed calls and connections in a row after which a server of the store is not asked for a while. Default ${default}."`
	BreakerRatio    float64       `group:"store" default:"0.5" placeholder:"SHARE" help:"Share of failed and slow calls within a second after which a server is not asked for a while, too. Default ${default}."`
	BreakerSlow     time.Duration `group:"store" default:"0" help:"How long a call takes that counts as slow; 0 is half of --store-budget."`
	BreakerPause    time.Duration `group:"store" default:"1s" help:"How long such a server is left alone, without calls and connections, before one probe tries it again; doubles up to 4s while the probe fails. A pause of more than 4s does not double. Default ${default}."`

	Nodes        int `group:"store" default:"0" placeholder:"N" help:"Number of headgate processes on one store, by which limits are divided where each decides by its share: failure_mode local and consistency local. Default 0: they count each other in the store."`
	DenialMemory int `group:"store" default:"65536" placeholder:"N" help:"Denials to remember at most, so that who is denied for a while costs the store nothing; 0 for none. Default ${default}."`
	// DenialTime bounds how long a denial is remembered, and so how late a refund
	// or a reset by another node takes effect. The default value is 2s; from 1ms
	// to a year, which no denial reaches.
	DenialTime time.Duration `group:"store" default:"2s" placeholder:"TIME" help:"How long a denial is remembered at most, if it does not end before: so late may a refund, a reset or a raised limit by another node take effect here. Default ${default}."`

	OpsAddr      string        `group:"listen" default:"127.0.0.1:6070" placeholder:"ADDR" help:"Address for operators: /metrics, /healthz, /readyz, /rules, /rlconfig, /switches, /v1/explain and /debug/pprof. \"\" serves none. Default ${default}."`
	HealthAddr   string        `group:"listen" placeholder:"ADDR" help:"Address for probes: /healthz and /readyz, which say whether the process lives and is ready and nothing else, in plain text: host:port, or unix:///path. At --ops-addr /readyz also says why. Default: off."`
	MetricsAddr  string        `group:"listen" placeholder:"ADDR" help:"Address for Prometheus, of /metrics and nothing else: host:port, or unix:///path. --ops-addr has it too. Default: off."`
	MetricsPath  string        `group:"listen" default:"/metrics" placeholder:"PATH" help:"Path of metrics at --metrics-addr. Default ${default}."`
	AllowedHosts string        `group:"listen" placeholder:"NAME,..." help:"More names that requests to the addresses for operators may carry in Host where there is no TLS. IP addresses, localhost, the name in the address itself and names that nobody can register, such as headgate.monitoring, are always taken. Others are refused, because a web page could reach the address by a name of its own."`
	DrainDelay   time.Duration `group:"listen" default:"1s" help:"How long to go on serving after readiness is off, so that load balancers and open connections notice."`
	// DrainTimeout bounds how long requests under way may take at shutdown. The
	// default value is 15s; from 0 (cut off at once) to 10m.
	DrainTimeout time.Duration `group:"listen" default:"15s" help:"How long requests under way may take to finish at shutdown."`

	Identity string `group:"identity" placeholder:"FILE" help:"YAML file that says by what requests are limited: API key, token, address, route; and by which key API keys are hashed. Default: by the address of the client, and by address and method."`

	XDS `embed:""`

	RulesAway `embed:""`

	StandIn `embed:""`

	Tenancy `embed:""`

	Link `embed:""`

	Observing `embed:""`
	// Prometheus is one that exists, for longer ranges than nodes remember.
	Prometheus `embed:""`

	Statsd `embed:""`

	Answers `embed:""`

	LoadBalancers `embed:""`

	Listeners `embed:""`

	OpsTLS `embed:""`

	LogLevel  string `group:"logs" enum:"debug,info,warn,error" default:"info" help:"Least severe level to log: debug, info, warn or error."`
	LogFormat string `group:"logs" enum:"text,json" default:"text" help:"Format of log lines: text or json."`
}

// EnvoyCompat reports whether rules have the defaults of envoyproxy/ratelimit.
func (s *Settings) EnvoyCompat() bool { return s.Compat == "envoy" }

// FedRules reports whether rules come from elsewhere, in place of files of this machine.
func (s *Settings) FedRules() bool { return s.XDSServer != "" || s.AreAway() }

// Bounds of the durations, each wide enough for any deployment and narrow
// enough that a slip of the unit (20 for 20ms is refused by the parser, 20h
// here) shows at start.
const (
	minPoll, maxPoll     = 100 * time.Millisecond, time.Hour
	minBudget, maxBudget = time.Millisecond, 10 * time.Second
	maxDrainDelay        = 5 * time.Minute
	maxDrain             = 10 * time.Minute

	maxBreakerFailures        = 1000
	minBreaker, maxBreaker    = 10 * time.Millisecond, 10 * time.Minute
	maxNodes, maxDenialMemory = 10_000, 1 << 24
	maxDenialTime             = 366 * 24 * time.Hour
)

// validate reports everything that is wrong with s, each problem with the name
// of its setting and a hint. It opens and resolves nothing.
func (s *Settings) validate() error {
	return errors.Join(
		s.Store.Check(),
		s.validatePerSecond(),
		s.validateStores(),
		s.validateRegions(),
		within("breaker-failures", s.BreakerFailures, 1, maxBreakerFailures),
		aRatio("--breaker-ratio", s.BreakerRatio),
		aRatio("--near-limit-ratio", s.NearLimitRatio),
		between("breaker-slow", s.BreakerSlow, 0, maxBudget),
		between("breaker-pause", s.BreakerPause, minBreaker, maxBreaker),
		within("nodes", s.Nodes, 0, maxNodes),
		within("denial-memory", s.DenialMemory, 0, maxDenialMemory),
		between("denial-time", s.DenialTime, time.Millisecond, maxDenialTime),
		between("store-budget", s.StoreBudget, minBudget, maxBudget),
		between("rules-poll", s.RulesPoll, minPoll, maxPoll),
		between("drain-delay", s.DrainDelay, 0, maxDrainDelay),
		between("drain-timeout", s.DrainTimeout, 0, maxDrain),
		s.Answers.validate(),
		optionalAddress("ops-addr", s.OpsAddr),
		s.Listeners.validate(),
		s.validateOpsTLS(),
		optionalAddress("health-addr", s.HealthAddr),
		s.validateMetrics(),
		s.XDS.validate(s.Rules),
		s.validateRulesAway(),
		s.Tenancy.validate(),
		s.Link.validate(),
		s.validateFollowing(),
		s.Observing.validate(),
		s.Prometheus.validate(),
		s.Statsd.validate(),
		s.LoadBalancers.validate(),
	)
}

// validateMetrics refuses an address or a path that cannot be served, and a path of nothing.
func (s *Settings) validateMetrics() error {
	if s.MetricsAddr == "" {
		return unused("metrics-addr", "metrics are at /metrics of --ops-addr", given{"metrics-path", s.MetricsPath != "" && s.MetricsPath != defaultOf[Settings]("MetricsPath")})
	}
	if !metricsPath.MatchString(s.MetricsPath) {
		return fmt.Errorf("--metrics-path: %.40q is no path; hint: /metrics", s.MetricsPath)
	}
	return address("metrics-addr", s.MetricsAddr)
}

// metricsPath matches plain paths, in which no character has a meaning of its own.
var metricsPath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)

// validatePerSecond refuses a second store that cannot stand beside the first.
func (s *Settings) validatePerSecond() error {
	switch {
	case s.StorePerSecond == (StoreURL{}):
		return nil
	case s.Store.Scheme() == "memory":
		return errors.New("--store-per-second: --store is in memory, which needs no relief; hint: leave it out")
	case s.StorePerSecond.Scheme() == "memory":
		return errors.New("--store-per-second: a memory store counts in this process alone; hint: redis://host:6379/0, or consistency: local in the rules that it would do for")
	}
	return s.StorePerSecond.CheckAs("--store-per-second")
}

// validateStores refuses a file of stores beside counters in memory: half of the limits
// would be those of one process, and nobody would see which.
func (s *Settings) validateStores() error {
	return refuse(s.Stores != "" && s.Store.Scheme() == "memory", "--stores: --store is in memory, where each process counts alone; hint: --store redis://host:6379/0")
}

// validateRegions refuses regions without a home. That Region is one of them is known when
// the file is read.
func (s *Settings) validateRegions() error {
	switch {
	case s.Regions == "":
		return unused("regions", "nothing is said of regions", given{"region", s.Region != ""})
	case s.Stores == "":
		return errors.New("--regions: its home and the stores of its regions are those of --stores; hint: --stores FILE")
	}
	return nil
}

func within(name string, n, lo, hi int) error { return inRange("--"+name, n, lo, hi) }

func between(name string, d, lo, hi time.Duration) error { return inRange("--"+name, d, lo, hi) }

func address(name, addr string) error {
	if _, _, err := ListenAddress(addr); err != nil {
		return fmt.Errorf("--%s: %w", name, err)
	}
	return nil
}

// optionalAddress is address for what "" switches off.
func optionalAddress(name, addr string) error {
	if addr == "" {
		return nil
	}
	return address(name, addr)
}

// ListenAddress splits addr into what net.Listen takes: "tcp" and host:port, or
// "unix" and the path of unix:///path.
func ListenAddress(addr string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(addr, "unix://"); ok {
		if !strings.HasPrefix(path, "/") {
			return "", "", fmt.Errorf("address %q: the path of a socket is absolute; hint: unix:///run/headgate.sock", addr)
		}
		return "unix", path, nil
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return "", "", fmt.Errorf("address %q is not host:port; hint: :8080, 127.0.0.1:8080, [::1]:8080 or unix:///path", addr)
	}
	return "tcp", addr, nil
}
