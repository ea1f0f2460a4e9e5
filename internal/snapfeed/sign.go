package snapfeed

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/headgate/headgate/internal/signing"
)

// newNonce is what a question is told from all others by: an answer to one is none to
// another, however old it is.
func newNonce() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// maxNonce bounds what who asks may have signed, in bytes.
const maxNonce = 64

// signed is the text that is signed: of an answer to the question with a nonce, its tag and
// its body.
func signed(nonce, etag string, body []byte) []byte {
	sum := sha256.Sum256(body)
	return fmt.Appendf(nil, "headgate snapshot %d\n%s\n%s\n%x\n", format, nonce, etag, sum)
}

var errSignature = errors.New("the answer is signed by nobody who is believed; hint: the keys with which deciders verify are the public ones of those with which admin processes sign")

// verify refuses an answer that none of the keys has signed.
func verify(v *signing.Verifier, nonce, etag string, body []byte, signature string) error {
	if !v.Signed(signed(nonce, etag, body), signature) {
		return errSignature
	}
	return nil
}
