package config

import (
	"errors"
	"time"
)

// Serve is everything that can be set on `headgate serve`.
type Serve struct {
	HTTPAddr      string `group:"listen" default:":8080" placeholder:"ADDR" help:"Address of the HTTP API: host:port, or unix:///path. Port 0 takes a free one, \"\" serves none. Default ${default}."`
	GRPCAddr      string `group:"listen" default:":8081" name:"grpc-addr" placeholder:"ADDR" help:"Address of Envoy's rate limit service (gRPC): host:port, or unix:///path. \"\" serves none. Default ${default}."`
	GRPCTransport string `group:"listen" name:"grpc-transport" enum:"h2,grpc-go" default:"h2" help:"What speaks HTTP/2 at --grpc-addr: h2, which decides calls that are read together by one question to the store, or grpc-go, which costs several times more. Default ${default}."`

	GRPCMaxConnectionAge      time.Duration `group:"listen" name:"grpc-max-connection-age" default:"5m" help:"After how long a connection to --grpc-addr is asked to go, so that callers spread over the processes that there are by now."`
	GRPCMaxConnectionAgeGrace time.Duration `group:"listen" name:"grpc-max-connection-age-grace" default:"30s" help:"How long calls on such a connection may still take before it is closed."`

	RedisFront `embed:""`

	Settings `embed:""`

	// StartWithoutRules serves though the first rules are bad. It is for those who are told of
	// it by an error, which the clients of a proxy are not.
	StartWithoutRules bool `group:"rules" help:"Start though the rule files are bad and no last good rules are kept. Envoy gets an error for every call until rules are in force, so that its own failure_mode_deny speaks. By default the process does not start."`

	Duties `embed:""`

	Publishing `embed:""`

	Callers `embed:""`

	CallersTLS `embed:""`

	Auth `embed:""`

	CheckIDs `embed:""`

	DualRun `embed:""`

	Admin `embed:""`

	Dashboard `embed:""`

	UsageKey string `group:"tenants" placeholder:"FILE" help:"Keys that sign the tokens with which customers read their own usage, at /v1/usage of --usage-addr: one to a line, the first one signs ('openssl rand -base64 32'). The admin API makes the tokens. Read again when it changes. Default: off."`

	UsageAddr      string `group:"listen" default:":8083" placeholder:"ADDR" help:"Address at which customers read their own usage, with --usage-key, and nothing else is served: host:port, or unix:///path. \"\" serves none. Default ${default}."`
	RLSHeaders     string `group:"answers" name:"rls-headers" enum:"off,envoy,http" default:"off" help:"Header fields that Envoy is asked to add to its answers: off, envoy (RateLimit-Limit, -Remaining and -Reset, as envoyproxy/ratelimit does) or http (those that the HTTP API sends, and its body of a denial)."`
	RLSHeaderNames `embed:""`

	RLSMetadata bool   `group:"answers" name:"rls-metadata" help:"Add dynamic metadata to answers to Envoy."`
	RLSClosed   string `group:"answers" name:"rls-closed" enum:"over_limit,error" default:"over_limit" help:"What Envoy is told when the store is away and the rule fails closed: over_limit, or error (then Envoy's own failure_mode_deny speaks)."`

	Hints bool `group:"logs" help:"Print commands to try once ready."`
}

const maxConnectionAge = 366 * 24 * time.Hour

// Validate reports everything that is wrong with s, each problem with the name
// of its setting and a hint. It opens and resolves nothing.
func (s *Serve) Validate() error {
	return errors.Join(
		s.Settings.validate(),
		s.validateRoles(),
		s.validatePublishing(),
		optionalAddress("http-addr", s.HTTPAddr),
		optionalAddress("grpc-addr", s.GRPCAddr),
		optionalAddress("usage-addr", s.UsageAddr),
		s.RedisFront.validate(),
		between("grpc-max-connection-age", s.GRPCMaxConnectionAge, time.Second, maxConnectionAge),
		between("grpc-max-connection-age-grace", s.GRPCMaxConnectionAgeGrace, time.Second, maxConnectionAge),
		s.validateUnused(),
		s.Callers.validate(),
		s.CallersTLS.validate(),
		s.Auth.validate(),
		s.CheckIDs.validate(),
		s.DualRun.validate(s),
		s.RLSHeaderNames.validate(s.RLSHeaders),
		s.Admin.validate(),
		s.validateDashboard(),
	)
}

// validateUnused refuses what would do nothing for want of another part.
func (s *Serve) validateUnused() error {
	does, err := s.Does()
	return errors.Join(
		unused("usage-key", "customers have no tokens", given{"usage-addr", s.UsageKey == "" && s.UsageAddr != "" && s.UsageAddr != defaultOf[Serve]("UsageAddr")}),
		s.Prometheus.validateAsked(err != nil || !does.Admin || s.AdminAddr != "" || s.DashboardAddr != ""),
		unused("auth-addr", "no gateway asks by sub-requests", given{"check-id-header", s.AuthAddr == "" && s.CheckIDHeader != ""}),
		refuse(s.TLSCert != "" && !s.securesAny(), "--tls-cert: no listener is served by TLS, because all are sockets of this machine or stand in --tls-except; hint: leave it out, or one of them"),
	)
}

// securesAny reports whether a listener of callers is served by TLS.
func (s *Serve) securesAny() bool {
	return s.Secures("http", s.HTTPAddr) || s.Secures("grpc", s.GRPCAddr) || s.Secures("auth", s.AuthAddr) || s.Secures("redis", s.RedisAddr) || s.UsageKey != "" && s.Secures("usage", s.UsageAddr)
}
