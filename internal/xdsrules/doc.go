// Package xdsrules gets rules from a control plane, such as Envoy Gateway, by the aggregated
// discovery service of xDS: resources of the type
// ratelimit.config.ratelimit.v3.RateLimitConfig, state of the world. It is how
// envoyproxy/ratelimit is configured with CONFIG_TYPE=GRPC_XDS_SOTW.
//
// Every resource becomes a rule document in JSON; whoever has the documents decides whether
// they come into force, and the answer to the control plane says so. While there is no
// stream, the rules in force stay.
package xdsrules
