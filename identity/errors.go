package identity

import (
	"errors"
	"strconv"
	"sync/atomic"
)

// ConfigError says which field of a configuration cannot be used, why, and what
// to write instead. It holds no secret.
type ConfigError struct {
	// Field is the path of the field, such as "Trusted[2]".
	Field string
	// Problem is what is wrong with it.
	Problem string
	// Hint is what to write instead.
	Hint string
}

// Error returns field, problem and hint in one line.
func (e *ConfigError) Error() string {
	return "identity: " + e.Field + ": " + e.Problem + "; hint: " + e.Hint
}

// problems collects what is wrong with a configuration, so that all of it is
// told at once.
type problems []error

func (p *problems) add(field, problem, hint string) {
	*p = append(*p, &ConfigError{Field: field, Problem: problem, Hint: hint})
}

func (p problems) err() error { return errors.Join(p...) }

// index names an element of a list in a configuration.
func index(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

// ErrNoAddress says that no client address could be told from a request although
// one was asked for. It is a fault of the configuration and not of the client: a
// peer that is no IP address (a unix socket) without ClientIPOptions.LocalPeer.
var ErrNoAddress = errors.New("identity: the peer of the connection has no IP address; hint: set LocalPeer to the address that stands for it")

// ErrRefused is matched by every RefusedError.
var ErrRefused = errors.New("identity: refused")

// RefusedError says that a credential was bad and that the configuration refuses
// such requests. A way in answers it with 401, with 403 when it is Forbidden, or with 503
// when Reason.Ours.
type RefusedError struct {
	Reason Reason
	// Forbidden says that no other credential would help: see Forbid.
	Forbidden bool
}

// Error says why. It holds nothing that the client sent.
func (e *RefusedError) Error() string { return "identity: refused: " + e.Reason.String() }

// Is makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// Reason is why a credential was not believed. The zero value is none.
type Reason uint8

const (
	// TokenTooLong is a token longer than MaxToken.
	TokenTooLong Reason = 1 + iota
	// TokenMalformed is text that is no signed token in compact form.
	TokenMalformed
	// TokenAlgorithm is an algorithm that is not allowed, "none" among them.
	TokenAlgorithm
	// TokenUnknownKey is a key that the key set does not hold (yet).
	TokenUnknownKey
	// TokenNoKeys says that the key set was never fetched or is too old to be
	// believed: a fault of ours and not of the client.
	TokenNoKeys
	// TokenSignature is a signature that does not fit.
	TokenSignature
	// TokenExpired is a token after its end.
	TokenExpired
	// TokenNotYetValid is a token before its start, or issued in the future.
	TokenNotYetValid
	// TokenIssuer is a token of another issuer.
	TokenIssuer
	// TokenAudience is a token for someone else.
	TokenAudience
	// TokenClaims is a token whose claims are malformed or lack an end.
	TokenClaims
	// APIKeyTooLong is an API key longer than MaxSecret.
	APIKeyTooLong
	// APIKeyUnknown is an API key that nobody was given.
	APIKeyUnknown
	// Conflicting says that one credential was sent several times, differently.
	Conflicting

	reasons
)

var reasonNames = [reasons]string{
	"none", "token too long", "token malformed", "token algorithm not allowed", "token key unknown",
	"no keys to verify tokens", "token signature wrong", "token expired", "token not yet valid",
	"token issuer wrong", "token audience wrong", "token claims malformed",
	"API key too long", "API key unknown", "conflicting credentials",
}

// String returns the reason in words.
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return "reason " + strconv.Itoa(int(r))
}

// Ours reports whether the fault is on this side: the client may have sent a good
// credential that could not be examined.
func (r Reason) Ours() bool { return r == TokenNoKeys }

// tally counts bad credentials by reason.
type tally [reasons]atomic.Uint64

func (t *tally) snapshot() map[Reason]uint64 {
	counts := map[Reason]uint64{}
	for r := Reason(1); r < reasons; r++ {
		if n := t[r].Load(); n > 0 {
			counts[r] = n
		}
	}
	return counts
}
