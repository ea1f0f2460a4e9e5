// Package callers says who may ask for decisions, and for what: by a token, by the name of
// a client certificate, or by nothing but the listener that is reached.
//
//	tokens:
//	- {name: checkout, sha256: 9f86..., rights: [check, reserve]}
//	- {name: nightly, sha256: 60303..., rights: [give_back], listeners: [http], expires_at: 2027-01-01T00:00:00Z}
//	certificates:
//	- {name: "uri:spiffe://prod/ns/edge/sa/envoy", rights: [check]}
//	anonymous:
//	  grpc: [check]
//
// Rights are enforced by a headgate.Door: this package finds the one that a caller comes
// in by. A token is looked up by its hash, and those found are remembered in a table of
// fixed size by a hash with a key of its own, so that a call costs nanoseconds and no
// memory.
package callers
