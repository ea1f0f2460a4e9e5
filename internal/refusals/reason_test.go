package refusals

import (
	"testing"

	"github.com/headgate/headgate/identity"
)

// TestReasonsOfCredentials: why package identity refuses a credential is counted as what it is, so
// that an attack can be told from keys that are missing.
func TestReasonsOfCredentials(t *testing.T) {
	for of, want := range map[identity.Reason]Reason{
		identity.TokenTooLong: Malformed, identity.TokenMalformed: Malformed, identity.APIKeyTooLong: Malformed, identity.Conflicting: Malformed,
		identity.TokenUnknownKey: UnknownSigner, identity.TokenIssuer: UnknownSigner, identity.TokenNoKeys: NoKeys,
		identity.TokenSignature: BadSignature, identity.TokenAlgorithm: BadSignature, identity.TokenExpired: Expired,
		identity.TokenNotYetValid: BadClaims, identity.TokenAudience: BadClaims, identity.TokenClaims: BadClaims, identity.APIKeyUnknown: UnknownToken,
	} {
		if got := OfCredential(of); got != want {
			t.Errorf("%v: %v, want %v", of, got, want)
		}
	}
}

// TestHarmless: what happens every day without an attack is no warning, and nothing else is
// harmless.
func TestHarmless(t *testing.T) {
	harmless := map[Reason]bool{NoToken: true, NoSession: true, NoKeys: true}
	for r := None + 1; r < reasons; r++ {
		if r.Harmless() != harmless[r] {
			t.Errorf("%v: %t", r, r.Harmless())
		}
	}
}
