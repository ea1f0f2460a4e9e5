// Package grpclimit limits gRPC calls: interceptors for servers and clients, of
// unary calls and streams, over anything that decides as a headgate.Limiter
// does.
//
//	limits, err := grpclimit.NewServer(limiter, grpclimit.Options{Domain: "api"})
//	...
//	server := grpc.NewServer(
//		grpc.UnaryInterceptor(limits.Unary),
//		grpc.StreamInterceptor(limits.Stream),
//	)
//
// A remote checker in place of limiter is the only change that a fleet with one
// decision service needs.
//
// # What callers are told
//
// A denial is RESOURCE_EXHAUSTED with google.rpc.ErrorInfo (why: RATE_LIMITED,
// CONCURRENCY_LIMITED, SECONDARY_RATE_LIMITED or BANNED), google.rpc.RetryInfo (when
// to come back, unless the call can never pass) and google.rpc.QuotaFailure (which
// limits), or UNAVAILABLE when the store failed and the failure mode denies. It is sent in
// trailers-only form, with grpc-retry-pushback-ms: clients whose retry policy
// has the code wait that long, and those of a call that can never pass do not
// try again. The fields of package httplimit travel in the metadata in lower
// case, with allowed answers as headers.
//
// # Streams
//
// Opening a stream is one call. With Options.Messages every message that is
// received (on a client: sent) is limited on its own too, and a denial ends the
// stream. A limit that shapes (leaky_queue) holds messages back instead.
//
// # Slots and soft limits
//
// A call that takes a slot of a limit on concurrency holds it until it ends: on a
// server when the handler has returned, on a client with the status of the call,
// whatever ends it. The slot is renewed meanwhile. What soft limits ask of whatever
// serves a call is incoming metadata on a server, from which what clients send
// under these names is removed, and outgoing metadata on a client.
package grpclimit
