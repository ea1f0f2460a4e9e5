// Package forwardauth answers gateways that ask about each request before they
// let it pass: nginx (auth_request), Traefik (ForwardAuth), Caddy (forward_auth),
// APISIX (forward-auth), HAProxy (a Lua action), Kong (a plugin) and Envoy (ext_authz
// over HTTP).
// Each of them sends a request of its own, which describes the client's; a profile
// says where in it what stands, and how the gateway wants to be answered.
//
// The Authorizer takes the client's request as it was, has its sender told by an
// identity.Extractor, asks a Checker and says what the client is to hear. Package
// extauthz does the same over gRPC.
//
// # Whom it believes
//
// Everything that describes the client's request can be written by anyone who
// reaches the address. So only configured peers are answered (Peers), and headers
// of which a profile expects one are refused when there are two: a gateway that
// adds where it should set would let its clients choose. What a profile does not
// name is not looked at, nor is the query of the sub-request, to which some
// gateways append that of the client.
//
// # What it does not do
//
// A sub-request does not tell when the client's request ends. Limits on
// concurrency therefore only say whether a slot is free, and take none; nothing is
// refunded. A delay of a limit that shapes is not waited out: gateways wait some
// tens of milliseconds at most.
package forwardauth

import (
	"context"

	"github.com/headgate/headgate"
)

// Checker decides requests[i] into responses[i]. An error means that nothing was
// decided. Neither slice may be kept after it returns, nor what they refer to but
// for the strings. headgate.Limiter is one.
type Checker interface {
	Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error
}

var _ Checker = (*headgate.Limiter)(nil)
