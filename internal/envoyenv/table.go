package envoyenv

// kind is the type of a variable.
type kind uint8

const (
	text kind = iota
	secret
	boolean
	number
	fraction
	duration
	list
	pairs  // k:v,k:v
	listen // a port, which Kubernetes may have set to a URL
)

// variable is one of the environment.
type variable struct {
	name     string
	kind     kind
	fallback string
	// without says why a variable that is given has no effect. "" is one that is mapped,
	// or that says how it is used where that is mapped.
	without string
}

// Reasons that several variables share.
const (
	noFiles    = "it says how configuration is fetched over xDS, which CONFIG_TYPE=FILE does not"
	ownBackoff = "the control plane is dialled again after 1 s at first, and after 30 s at most"
	ownPool    = "connections to the store are not pooled: all requests share one, which sends what waits together"
	ownRetry   = "the process starts without the store, and goes on trying to reach it"
	ownMapping = "metrics are served under the names of the default mapping, in seconds"
)

// variables are all that envoyproxy/ratelimit has, in the order of its settings.
var variables = []variable{
	{name: "HOST", fallback: "0.0.0.0"},
	{name: "PORT", kind: listen, fallback: "8080"},
	{name: "DEBUG_HOST", fallback: "0.0.0.0"},
	{name: "DEBUG_PORT", kind: listen, fallback: "6070"},
	{name: "GRPC_HOST", fallback: "0.0.0.0"},
	{name: "GRPC_PORT", kind: listen, fallback: "8081"},
	{name: "GRPC_UDS"},
	{name: "GRPC_MAX_CONNECTION_AGE", kind: duration, fallback: "24h"},
	{name: "GRPC_MAX_CONNECTION_AGE_GRACE", kind: duration, fallback: "1h"},
	{name: "GRPC_SERVER_USE_TLS", kind: boolean, fallback: "false"},
	{name: "GRPC_SERVER_TLS_CERT"},
	{name: "GRPC_SERVER_TLS_KEY"},
	{name: "GRPC_CLIENT_TLS_CACERT"},
	{name: "GRPC_CLIENT_TLS_SAN"},
	{name: "LOG_LEVEL", fallback: "WARN"},
	{name: "LOG_FORMAT", fallback: "text"},
	{name: "CONFIG_TYPE", fallback: "FILE"},
	{name: "FORCE_START_WITHOUT_INITIAL_CONFIG", kind: boolean, fallback: "false", without: "the process never waits for the control plane: it starts with the last rules that it kept, and without any Envoy gets an error for every call until they come"},
	{name: "CONFIG_GRPC_XDS_NODE_ID", fallback: "default"},
	{name: "CONFIG_GRPC_XDS_NODE_METADATA"},
	{name: "CONFIG_GRPC_XDS_SERVER_URL", fallback: "localhost:18000"},
	{name: "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", kind: duration, fallback: "3s", without: ownBackoff},
	{name: "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", kind: secret},
	{name: "CONFIG_GRPC_XDS_SERVER_USE_TLS", kind: boolean, fallback: "false"},
	{name: "CONFIG_GRPC_XDS_CLIENT_TLS_CERT"},
	{name: "CONFIG_GRPC_XDS_CLIENT_TLS_KEY"},
	{name: "CONFIG_GRPC_XDS_SERVER_TLS_CACERT"},
	{name: "CONFIG_GRPC_XDS_SERVER_TLS_SAN"},
	{name: "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", kind: duration, fallback: "10s", without: ownBackoff},
	{name: "XDS_CLIENT_BACKOFF_MAX_INTERVAL", kind: duration, fallback: "60s", without: ownBackoff},
	{name: "XDS_CLIENT_BACKOFF_RANDOM_FACTOR", kind: fraction, fallback: "0.5", without: ownBackoff},
	{name: "XDS_CLIENT_BACKOFF_JITTER", kind: boolean, fallback: "true", without: ownBackoff},
	{name: "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", kind: number},
	{name: "USE_STATSD", kind: boolean, fallback: "true"},
	{name: "STATSD_HOST", fallback: "localhost"},
	{name: "STATSD_PORT", kind: listen, fallback: "8125"},
	{name: "USE_DOG_STATSD", kind: boolean, fallback: "false"},
	{name: "USE_DOG_STATSD_MOGRIFIERS", kind: list, without: "names of metrics and their tags are not rewritten"},
	{name: "EXTRA_TAGS", kind: pairs},
	{name: "STATS_FLUSH_INTERVAL", kind: duration, fallback: "10s"},
	{name: "DISABLE_STATS", kind: boolean, fallback: "false"},
	{name: "USE_PROMETHEUS", kind: boolean, fallback: "false"},
	{name: "PROMETHEUS_ADDR", fallback: ":9090"},
	{name: "PROMETHEUS_PATH", fallback: "/metrics"},
	{name: "PROMETHEUS_MAPPER_YAML", without: ownMapping},
	{name: "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", kind: boolean, fallback: "false", without: ownMapping},
	{name: "RUNTIME_ROOT", fallback: "/srv/runtime_data/current"},
	{name: "RUNTIME_SUBDIRECTORY"},
	{name: "RUNTIME_APPDIRECTORY", fallback: "config"},
	{name: "RUNTIME_IGNOREDOTFILES", kind: boolean, fallback: "false"},
	{name: "RUNTIME_WATCH_ROOT", kind: boolean, fallback: "true"},
	{name: "BACKEND_TYPE", fallback: "redis"},
	{name: "EXPIRATION_JITTER_MAX_SECONDS", kind: number, fallback: "300", without: "counters end with their windows, and are not counted anew when they do"},
	{name: "LOCAL_CACHE_SIZE_IN_BYTES", kind: number, fallback: "0", without: "denials are remembered by their number; hint: HEADGATE_DENIAL_MEMORY"},
	{name: "NEAR_LIMIT_RATIO", kind: fraction, fallback: "0.8"},
	{name: "CACHE_KEY_PREFIX"},
	{name: "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", kind: boolean, fallback: "false"},
	{name: "SHADOW_MODE", kind: boolean, fallback: "false"},
	{name: "QUOTA_MODE", kind: boolean, fallback: "false"},
	{name: "RESPONSE_DYNAMIC_METADATA", kind: boolean, fallback: "false"},
	{name: "MERGE_DOMAIN_CONFIG", kind: boolean, fallback: "false"},
	{name: "LIMIT_RESPONSE_HEADERS_ENABLED", kind: boolean, fallback: "false"},
	{name: "LIMIT_LIMIT_HEADER", fallback: "RateLimit-Limit"},
	{name: "LIMIT_REMAINING_HEADER", fallback: "RateLimit-Remaining"},
	{name: "LIMIT_RESET_HEADER", fallback: "RateLimit-Reset"},
	{name: "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", kind: boolean, fallback: "false"},
	{name: "REDIS_SOCKET_TYPE", fallback: "unix"},
	{name: "REDIS_TYPE", fallback: "SINGLE"},
	{name: "REDIS_URL", kind: secret, fallback: "/var/run/nutcracker/ratelimit.sock"},
	{name: "REDIS_POOL_SIZE", kind: number, fallback: "10", without: ownPool},
	{name: "REDIS_AUTH", kind: secret},
	{name: "REDIS_TLS", kind: boolean, fallback: "false"},
	{name: "REDIS_TLS_CLIENT_CERT"},
	{name: "REDIS_TLS_CLIENT_KEY"},
	{name: "REDIS_TLS_CACERT"},
	{name: "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", kind: boolean, fallback: "false"},
	{name: "REDIS_SENTINEL_AUTH", kind: secret},
	{name: "REDIS_PIPELINE_WINDOW", kind: duration, fallback: "0", without: ownPool},
	{name: "REDIS_PIPELINE_LIMIT", kind: number, fallback: "0", without: ownPool},
	{name: "REDIS_CLUSTER_PIPELINE_PARALLELISM", kind: number, fallback: "1", without: ownPool},
	{name: "REDIS_TIMEOUT", kind: duration, fallback: "10s", without: "no request waits that long; hint: HEADGATE_STORE_BUDGET, 20ms by default"},
	{name: "REDIS_POOL_ON_EMPTY_BEHAVIOR", fallback: "WAIT", without: ownPool},
	{name: "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", kind: boolean, fallback: "false", without: "health does not follow the store: else an outage of it would restart every process"},
	{name: "REDIS_STARTUP_INITIAL_INTERVAL", kind: duration, fallback: "1s", without: ownRetry},
	{name: "REDIS_STARTUP_MAX_INTERVAL", kind: duration, fallback: "30s", without: ownRetry},
	{name: "REDIS_STARTUP_MAX_ELAPSED_TIME", kind: duration, fallback: "0", without: ownRetry},
	{name: "REDIS_PERSECOND", kind: boolean, fallback: "false"},
	{name: "REDIS_PERSECOND_SOCKET_TYPE", fallback: "unix"},
	{name: "REDIS_PERSECOND_TYPE", fallback: "SINGLE"},
	{name: "REDIS_PERSECOND_URL", kind: secret, fallback: "/var/run/nutcracker/ratelimitpersecond.sock"},
	{name: "REDIS_PERSECOND_POOL_SIZE", kind: number, fallback: "10", without: ownPool},
	{name: "REDIS_PERSECOND_AUTH", kind: secret},
	{name: "REDIS_PERSECOND_TLS", kind: boolean, fallback: "false"},
	{name: "REDIS_PERSECOND_SENTINEL_AUTH", kind: secret},
	{name: "REDIS_PERSECOND_PIPELINE_WINDOW", kind: duration, fallback: "0", without: ownPool},
	{name: "REDIS_PERSECOND_PIPELINE_LIMIT", kind: number, fallback: "0", without: ownPool},
	{name: "REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", kind: number, fallback: "1", without: ownPool},
	{name: "REDIS_PERSECOND_TIMEOUT", kind: duration, fallback: "10s", without: "no request waits that long; hint: HEADGATE_STORE_BUDGET, 20ms by default"},
	{name: "REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", fallback: "WAIT", without: ownPool},
	{name: "MEMCACHE_HOST_PORT", kind: list},
	{name: "MEMCACHE_MAX_IDLE_CONNS", kind: number, fallback: "2", without: "connections to memcached are kept as they are needed"},
	{name: "MEMCACHE_SRV"},
	{name: "MEMCACHE_SRV_REFRESH", kind: duration, fallback: "0", without: "servers are named by MEMCACHE_HOST_PORT"},
	{name: "MEMCACHE_TLS", kind: boolean, fallback: "false"},
	{name: "MEMCACHE_TLS_CLIENT_CERT"},
	{name: "MEMCACHE_TLS_CLIENT_KEY"},
	{name: "MEMCACHE_TLS_CACERT"},
	{name: "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION", kind: boolean, fallback: "false"},
	{name: "TRACING_ENABLED", kind: boolean, fallback: "false"},
	{name: "TRACING_SERVICE_NAME", fallback: "RateLimit", without: "spans say headgate, and the name of the node; hint: HEADGATE_NODE_NAME"},
	{name: "TRACING_SERVICE_NAMESPACE", without: "spans say headgate, and the name of the node; hint: HEADGATE_NODE_NAME"},
	{name: "TRACING_SERVICE_INSTANCE_ID", without: "spans say headgate, and the name of the node; hint: HEADGATE_NODE_NAME"},
	{name: "TRACING_EXPORTER_PROTOCOL", fallback: "http"},
	{name: "TRACING_SAMPLING_RATE", kind: fraction, fallback: "1"},
}
