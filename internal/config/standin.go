package config

// StandIn are what envoyproxy/ratelimit does by a word of its environment, for who takes its
// place. The zero value does none of it.
type StandIn struct {
	QuotaMode      bool    `group:"rules" help:"Read every rule as if it said quota_mode: true: a request is denied only when all limits that it meets deny it."`
	SpareDenied    bool    `group:"rules" help:"Do not count denied hits, where a rule does not say count_denied, with --compat envoy too."`
	NearLimitRatio float64 `group:"watch" default:"0.8" placeholder:"SHARE" help:"Share of a limit above which --envoy-metrics and --statsd count hits as near it. Default ${default}."`
	ReadyWithRules bool    `group:"rules" help:"Be ready only while a rule is in force. By default a process without rules is ready."`
}
