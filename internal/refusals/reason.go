package refusals

import (
	"context"

	"github.com/headgate/headgate/identity"
)

// Door is where somebody was refused.
type Door uint8

// The doors.
const (
	// Admin is the admin API.
	Admin Door = iota
	// Dashboard is the dashboard: logins, and what its sessions ask of the admin API.
	Dashboard
	// Billing is the web hook by which billing changes accounts.
	Billing
	// Usage is where customers read what they have used.
	Usage
	// Gateway is sub-requests of gateways; the credential is that of a gateway's client.
	Gateway
	// Proxy is the reverse proxy.
	Proxy
	// Ops is the address for operators: metrics, health, rules, profiles.
	Ops
	// HTTP, GRPC, Auth and Redis are where callers ask for decisions: the HTTP API, Envoy's
	// protocol, sub-requests of gateways that are no peers, and the protocol of Redis.
	HTTP
	GRPC
	Auth
	Redis

	doors
)

var doorNames = [doors]string{"admin", "dashboard", "billing", "usage", "gateway", "proxy", "ops", "http", "grpc", "auth", "redis"}

// String returns the name used in metrics and logs.
func (d Door) String() string { return doorNames[d] }

// Reason is why somebody was refused.
type Reason uint8

// The reasons.
const (
	// None is no reason.
	None Reason = iota
	// NoToken is a request without any credential.
	NoToken
	// Malformed is what has not the form of a credential, or several of them.
	Malformed
	// UnknownToken is a token, API key or certificate that nobody was given.
	UnknownToken
	// UnknownSigner is a signed token of an issuer, or by a key, that is not known.
	UnknownSigner
	// BadSignature is a signature that does not fit, or an algorithm that is none.
	BadSignature
	// Expired is a credential whose time is over; of a signature, that it was not made
	// just now.
	Expired
	// BadClaims is a signed token that is for others, not yet good, or does not say who
	// bears it.
	BadClaims
	// Revoked is a token that was taken back.
	Revoked
	// NoKeys is that this process could not examine a credential, for want of keys.
	NoKeys
	// WrongScope is a good credential without the right that is asked for.
	WrongScope
	// RateLimited is a good credential that asks too often.
	RateLimited
	// NoSession is a request to the dashboard without a session.
	NoSession
	// UnknownSession is one with a session that has ended or never was.
	UnknownSession
	// Origin is a request that a page of another origin may have sent.
	Origin
	// OtherHost is a request for a host by whose name nobody should ask here: a page whose
	// own name leads to this address may have sent it, or a name is missing in the settings.
	OtherHost

	reasons
)

var reasonNames = [reasons]string{
	"none", "no_token", "malformed", "unknown_token", "unknown_signer", "bad_signature", "expired", "bad_claims", "revoked", "no_keys",
	"wrong_scope", "rate_limited", "no_session", "unknown_session", "origin", "other_host",
}

// String returns the name used in metrics and logs.
func (r Reason) String() string { return reasonNames[r] }

// Harmless reports whether people and programs that mean no harm give the reason every day:
// they have not shown a credential at all, or are at fault in nothing.
func (r Reason) Harmless() bool { return r == NoToken || r == NoSession || r == NoKeys }

// OfCredential returns why a credential was refused.
func OfCredential(r identity.Reason) Reason {
	switch r {
	case identity.TokenUnknownKey, identity.TokenIssuer:
		return UnknownSigner
	case identity.TokenNoKeys:
		return NoKeys
	case identity.TokenSignature, identity.TokenAlgorithm:
		return BadSignature
	case identity.TokenExpired:
		return Expired
	case identity.TokenNotYetValid, identity.TokenAudience, identity.TokenClaims:
		return BadClaims
	case identity.APIKeyUnknown:
		return UnknownToken
	}
	return Malformed
}

// usual reports whether a door may refuse for that reason.
func usual(d Door, r Reason) bool {
	signed := r == Malformed || r == UnknownToken || r == UnknownSigner || r == BadSignature || r == Expired || r == BadClaims || r == NoKeys
	switch d {
	case Admin:
		return signed || r == NoToken || r == WrongScope || r == RateLimited || r == OtherHost
	case Dashboard:
		return signed || r == WrongScope || r == RateLimited || r == NoSession || r == UnknownSession || r == Origin || r == OtherHost
	case Ops:
		return r == OtherHost
	case HTTP, GRPC, Auth, Redis:
		return r == NoToken || r == Malformed || r == UnknownToken || r == Expired || r == WrongScope
	case Billing:
		return r == NoToken || r == BadSignature || r == Expired || r == RateLimited
	case Usage:
		return r == NoToken || r == Malformed || r == BadSignature || r == Expired || r == Revoked || r == RateLimited
	}
	return signed || r == NoToken
}

// doorKey is the key of a door in a context.
type doorKey struct{}

// Through returns a context of a request that came in by d, and is answered by another
// door.
func Through(ctx context.Context, d Door) context.Context {
	return context.WithValue(ctx, doorKey{}, d)
}

// DoorOf returns the door that Through has named, own without one.
func DoorOf(ctx context.Context, own Door) Door {
	if d, ok := ctx.Value(doorKey{}).(Door); ok {
		return d
	}
	return own
}
