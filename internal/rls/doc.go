// Package rls answers Envoy's rate limit service over gRPC:
// envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit, with
// grpc.health.v1 beside it.
//
// It is an adapter. It turns the wire's request into a headgate.Request, asks a
// Checker, and turns the headgate.Response back into Envoy's statuses, headers
// and metadata. Which rules apply, what is charged and who is denied is decided
// below; Envoy's vocabulary ends here.
//
// The one hot message pair is decoded and encoded by hand, without reflection
// and nearly without allocation; every other message (health) takes
// the ordinary protobuf codec. The hand-written side accepts and refuses the
// same bytes as the generated code and reads the same content from them.
//
// A delay of a limit that shapes (leaky_queue) is not waited out here: the
// answer says whether the request may pass, and Envoy's 20 ms are no place to
// hold it back. The same goes for the delay of a soft limit; headers that soft
// limits want the upstream to see go out as request_headers_to_add.
//
// Envoy names no holder, so slots of limits on concurrency are held by an entry
// that the rule names, and freed by the call with negative hits that Envoy makes
// when a stream is done. A limit on concurrency and a ban have no window, so their
// unit is UNKNOWN.
//
// What a request has cost once it is done comes in a call of its own, when Envoy has
// said its descriptors with apply_on_stream_done. An entry headgate_op in such a
// descriptor says that its hits are charged whether they fit or not, or that they
// settle a reservation; see reserve.go. Nothing but that entry turns any of it on.
//
// An entry headgate_check_id, or a header of the call, is the id of the check: a call that
// is repeated by it gets the first answer and is charged nothing; see checkid.go.
package rls

import (
	"context"

	"github.com/headgate/headgate"
)

// Checker decides requests[i] into responses[i]. An error says that a request
// is malformed and that nothing was charged. Neither slice may be kept after it
// returns, nor what they refer to but for the strings. headgate.Limiter is one.
type Checker interface {
	Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error
}

var _ Checker = (*headgate.Limiter)(nil)
