package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/identity"
)

const (
	// SignatureHeader carries the signature of a body.
	SignatureHeader = "Headgate-Signature"
	// tolerance is how far the instant of a signature may be from now, before and
	// after.
	tolerance = 5 * time.Minute
	// maxSignature bounds a header that is read, in bytes.
	maxSignature = 1024
	// maxSignatures bounds the signatures that are compared.
	maxSignatures = 8
	// maxInstant bounds the instant of a signature: the year 9999, in seconds.
	maxInstant = 253402300799
)

var (
	// ErrSignature says that a request was not signed with any of the keys.
	ErrSignature = errors.New("the signature is missing or does not fit; hint: " + SignatureHeader + ": t=UNIX_SECONDS,v1=HEX, where HEX is the HMAC-SHA-256 of UNIX_SECONDS, a dot and the body")
	// ErrSignatureAge says that a signature is good, and was made too long ago or for
	// later.
	ErrSignatureAge = errors.New("the signature was not made within 5 minutes of now; hint: sign when sending, and compare the clocks")
)

// Sign returns the value of SignatureHeader for a body that is sent at an instant:
//
//	t=1767225600,v1=HEX
//
// where HEX is HMAC-SHA-256(key, "1767225600." body). There is one v1 for each key,
// so that a receiver can exchange its own at leisure.
func Sign(keys []identity.Secret, body []byte, at time.Time) string {
	instant := strconv.FormatInt(at.Unix(), 10)
	header := "t=" + instant
	for _, key := range keys {
		header += ",v1=" + hex.EncodeToString(mac(key, instant, body))
	}
	return header
}

func mac(key identity.Secret, instant string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(key.Reveal()))
	h.Write([]byte(instant))
	h.Write([]byte("."))
	h.Write(body)
	return h.Sum(nil)
}

// Verify checks the value of SignatureHeader that came with a body. The error is
// ErrSignature or ErrSignatureAge. How long it takes says nothing of the right
// signature.
func Verify(keys []identity.Secret, header string, body []byte, now time.Time) error {
	instant, signatures := parseSignature(header)
	seconds, err := strconv.ParseInt(instant, 10, 64)
	if err != nil || seconds < 0 || seconds > maxInstant {
		return ErrSignature
	}
	good := false
	for _, key := range keys {
		want := mac(key, instant, body)
		for _, signature := range signatures {
			good = hmac.Equal(want, signature) || good
		}
	}
	switch {
	case !good:
		return ErrSignature
	case now.Sub(time.Unix(seconds, 0)).Abs() > tolerance:
		return ErrSignatureAge
	}
	return nil
}

// parseSignature returns the parts of a header; the instant is "" when it cannot be
// read. Parts that it does not know are those of later versions.
func parseSignature(header string) (instant string, signatures [][]byte) {
	if len(header) > maxSignature {
		return "", nil
	}
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			if instant != "" {
				return "", nil
			}
			instant = value
		case "v1":
			if signature, err := hex.DecodeString(value); err == nil && len(signatures) < maxSignatures {
				signatures = append(signatures, signature)
			}
		}
	}
	return instant, signatures
}
