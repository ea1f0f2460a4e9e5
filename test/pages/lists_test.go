package pages

// exception is a command that is not run, by how it begins, and why.
type exception struct{ page, command, reason string }

// scene is what a page takes for granted.
type scene struct {
	redis  bool // a Redis at the port that pages name, 6379
	files  map[string]string
	before []string // commands
}

// elsewhere are the pages whose commands test/migrate runs, against what they come from.
var elsewhere = []string{"docs/migrate/nginx.md", "docs/migrate/kong.md", "docs/migrate/istio.md", "docs/migrate/envoy-gateway.md"}

const (
	userRules = "domain: api\nmatch: path\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 20}\n"
	shopRules = "domain: shop\nmatch: path\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 20}\n"
	slotRules = "domain: api\nmatch: path\ndescriptors:\n  - key: user\n    concurrency: 20\n"
	identity  = "descriptors:\n  - entries: [remote_address]\n"
)

var (
	withRules  = scene{files: map[string]string{"rules.yaml": userRules}}
	quickstart = scene{before: []string{"headgate serve --rules examples/rules/quickstart.yaml --store memory://"}}
)

var scenes = map[string]scene{
	"README.md": {
		files: map[string]string{"identity.yaml": identity, "tiers.yaml": "tiers:\n  free:\n    default: {requests_per_unit: 100, unit: minute}\n  pro:\n    default: {requests_per_unit: 1000, unit: minute}\n"},
		before: []string{
			"headgate serve --rules examples/rules/quickstart.yaml --store memory://",
			"export HEADGATE_TENANTS=sqlite://$PWD/tenants.db",
		},
	},
	"docs/accuracy.md":  {redis: true, files: withRules.files},
	"docs/drill.md":     {redis: true, files: withRules.files},
	"docs/start.md":     {redis: true},
	"docs/switches.md":  {redis: true},
	"docs/check-api.md": quickstart,
	"docs/concurrency.md": {
		files:  map[string]string{"rules.yaml": slotRules},
		before: []string{"headgate serve --rules rules.yaml"},
	},
	"docs/explain.md": {
		files:  map[string]string{"rules.yaml": shopRules},
		before: []string{"headgate serve --rules rules.yaml"},
	},
	"docs/gateways.md": {files: map[string]string{"rules/api.yaml": userRules, "identity.yaml": identity}},
	"docs/metrics.md": {
		files:  withRules.files,
		before: []string{"headgate serve --rules rules.yaml", "headgate check --domain api user:ann"},
	},
	"docs/security.md": withRules,
	"docs/tenants.md":  {before: []string{"cp examples/tenants/* ."}},
	"docs/tracing.md":  withRules,
}

// Reasons that several commands have.
const (
	atHome      = "it names addresses and paths of an installation"
	byAccount   = "it publishes what clients and tools/release test, by the account of a maintainer"
	byClone     = "it needs the network, or runs all tests; CI does what it does"
	byCollector = "it sends to services that are not here"
	byHelm      = "it needs a cluster; tools/chart renders the chart and checks the pods"
	endless     = "it goes on until somebody ends it"
	ofBefore    = "it uses what an answer before it said, which the page abbreviates; test/e2e does the same"
	recorded    = "it reads records that a reader has; test/script replays some"
	roles       = "it needs certificates and a PostgreSQL; test/e2e runs roles apart"
	threeStores = "it needs a Redis in each of three regions; test/e2e has them"
	tokenShown  = "it needs a token that was printed; test/e2e does the same"
)

var notRun = []exception{
	{"README.md", "git clone", byClone},
	{"README.md", "make ", byClone},
	{"README.md", "go install", byClone},
	{"README.md", "headgate serve --rules rules.yaml --store 'redis://", atHome},
	{"README.md", "export HEADGATE_TENANTS=postgres", atHome},
	{"CONTRIBUTING.md", "make ", byClone},
	{"CONTRIBUTING.md", "npm publish", byAccount},
	{"CONTRIBUTING.md", "twine", byAccount},
	{"docs/accuracy.md", "headgate simulate", "it computes for many seconds; internal/simulate holds its figures"},
	{"docs/admin.md", "curl -N", endless},
	{"docs/admin.md", "curl http://127.0.0.1:8083/v1/usage", tokenShown},
	{"docs/admin.md", "curl -X POST http://127.0.0.1:9090/admin/v1/usage-tokens", "it needs a key that the page makes later; internal/adminapi does the same"},
	{"docs/admin.md", `printf %s "$USAGE_TOKEN"`, tokenShown},
	{"docs/audit.md", "headgate serve", atHome},
	{"docs/audit.md", "aws s3", byCollector},
	{"docs/audit.md", "rclone", byCollector},
	{"docs/audit.md", "zcat", recorded},
	{"docs/concurrency.md", `curl -d '{"domain":"api","descriptors":[{"descriptor":"user:42"}],"hold":"0a1b`, ofBefore},
	{"docs/dashboard.md", "headgate serve --rules rules.yaml --dashboard-addr 127.0.0.1:9092", "it needs an issuer; test/browser logs in by one"},
	{"docs/envoy-quotas.md", "envoy", "it is a gateway; test/e2e runs Envoy by this file"},
	{"docs/kubernetes.md", "helm", byHelm},
	{"docs/kubernetes.md", "kubectl", byHelm},
	{"docs/load.md", "headgate load", "it takes ten seconds; docs/adoption.md has a shorter one"},
	{"docs/monitoring.md", "promtool", "test/prometheus runs it"},
	{"docs/operations.md", "headgate serve", roles},
	{"docs/operations.md", "docker", "it needs Docker; test/deploy reads the file"},
	{"docs/recommend.md", "curl -H", tokenShown},
	{"docs/redis.md", "redis-cli", "people type into it; test/clients runs redis-cli"},
	{"docs/redis.md", "headgate serve --rules rules.yaml --redis-addr :6380 --callers callers.yaml --tls-cert", roles},
	{"docs/regions.md", "headgate serve", threeStores},
	{"docs/regions.md", "headgate store epoch", threeStores},
	{"docs/regions.md", "headgate regions status", threeStores},
	{"docs/regions.md", "headgate rules validate --regions regions.yaml rules/", "the same is there with a file"},
	{"docs/regions.md", "redis-server", threeStores},
	{"docs/regions.md", "headgate check", threeStores},
	{"docs/regions.md", "export", threeStores},
	{"docs/regions.md", "headgate top", threeStores},
	{"docs/regions.md", "headgate load", threeStores},
	{"docs/regions.md", "headgate drill", threeStores},
	{"docs/regions.md", "redis-cli", threeStores},
	{"docs/regions.md", "sleep", threeStores},
	{"docs/recommend.md", "headgate recommend --rules rules/", recorded},
	{"docs/recommend.md", "headgate recommend --document", "it needs a broker and an admin API; test/script has the same with one"},
	{"docs/replay.md", "headgate replay", recorded},
	{"docs/reserve.md", `curl -d '{"reservation"`, ofBefore},
	{"docs/reserve.md", `curl -d '{"domain":"llm","descriptors":[{"descriptor":"user:42","hits":4000}]}'`, ofBefore},
	{"docs/security.md", "headgate serve --rules rules.yaml --tls-cert", roles},
	{"docs/security.md", "curl", tokenShown},
	{"docs/tenants.md", "curl -X PUT", "it needs an admin API; docs/admin.md has the same with one"},
	{"docs/tenants.md", `headgate serve --rules rules.yaml --tenants "$DATABASE"`, roles},
	{"docs/tenants.md", "HEADGATE_TENANTS=", atHome},
	{"docs/top.md", "headgate tail", endless},
	{"docs/top.md", "headgate top --admin https://headgate-nodes", atHome},
	{"docs/webhooks.md", "curl", "it needs a key of a billing service; internal/adminapi signs and sends the same"},
	{"docs/migrate/dual-run.md", "headgate serve", "it needs the service that is replaced; internal/dualrun has one"},
	{"docs/migrate/dual-run.md", "curl -s localhost:6070/dual-run", "it needs the service that is replaced; internal/dualrun has one"},
	{"docs/migrate/envoy-ratelimit.md", "headgate ratelimit", endless},
	{"docs/migrate/envoy-ratelimit.md", "ln -s", endless},
	{"docs/migrate/import.md", "nginx -T", "it needs an nginx with limits; test/migrate imports from one"},
	{"docs/migrate/import.md", "headgate rules", "it reads what the import wrote; test/migrate does the same"},
}
