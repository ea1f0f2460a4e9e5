// Package usagetoken makes and checks the tokens by which customers read what they
// have used themselves, and nothing else. A token names its tenant and its end, and
// is signed: nothing is kept of it, and every node with the same key takes it.
//
//	token = "hgut_" base64url( payload HMAC-SHA-256(key, label payload) )
//	payload = version(1) id(8) end(8) length of key(2) key value
//
// Numbers are big-endian, the end is in seconds from 1970. Text that is not just what
// Sign makes is refused, so that one grant has one token.
package usagetoken

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/descriptor"
)

const (
	// prefix begins every token, so that scanners of source code and logs know one.
	prefix = "hgut_"
	// MaxToken bounds a token, in bytes.
	MaxToken = 1024
	// MaxSubject bounds the key and the value of a subject, in bytes.
	MaxSubject = 256

	version  = 1
	idLength = 8
	// headLength is that of a payload without key and value.
	headLength = 1 + idLength + 8 + 2
	// label keeps signatures apart from those that the same key may make elsewhere.
	label = "headgate usage token\x00"
	// maxEnd bounds the end of a token: the year 9999.
	maxEnd = 253402300799
)

var (
	// ErrInvalid says that a token was not signed by any of the keys. Whether it is no
	// token at all, or one that was altered, is nobody's business.
	ErrInvalid = errors.New("the token is not valid")
	// ErrExpired says that a token has ended.
	ErrExpired = errors.New("the token has expired")
	// ErrRevoked says that the file of keys takes a token back.
	ErrRevoked = errors.New("the token was revoked")
)

// Grant is what a token says.
type Grant struct {
	// Subject is the tenant whose usage may be read.
	Subject descriptor.Entry
	// Until is the first instant at which the token is not good any more, in whole
	// seconds.
	Until time.Time
	// ID tells the tokens of a subject apart: 16 hexadecimal digits. It is no secret,
	// and is what a token is revoked by.
	ID string
}

var encoding = base64.RawURLEncoding.Strict()

// Sign returns a token for subject that is good until just before until, whose
// fraction of a second is cut off.
func (k *Keys) Sign(subject descriptor.Entry, until time.Time) (string, error) {
	switch {
	case subject.Key == "" || subject.Value == "" || len(subject.Key) > MaxSubject || len(subject.Value) > MaxSubject:
		return "", fmt.Errorf("sign a usage token: the key and the value of the tenant have 1 to %d bytes", MaxSubject)
	case until.Unix() <= 0 || until.Unix() > maxEnd:
		return "", errors.New("sign a usage token: its end is not between 1970 and 9999")
	}
	payload := make([]byte, 1, headLength+len(subject.Key)+len(subject.Value)+sha256.Size)
	payload[0] = version
	var id [idLength]byte
	_, _ = rand.Read(id[:]) // never fails
	payload = append(payload, id[:]...)
	payload = binary.BigEndian.AppendUint64(payload, uint64(until.Unix()))
	payload = binary.BigEndian.AppendUint16(payload, uint16(len(subject.Key)))
	payload = append(append(payload, subject.Key...), subject.Value...)
	ring := k.ring()
	return prefix + encoding.EncodeToString(append(payload, mac(ring.keys[0].Reveal(), payload)...)), nil
}

// Verify returns what a token says. The error is ErrInvalid, ErrExpired or
// ErrRevoked, and holds nothing of the token. How long it takes to find a signature
// wrong says nothing of the right one.
func (k *Keys) Verify(token string, now time.Time) (Grant, error) {
	text, found := strings.CutPrefix(token, prefix)
	if !found || len(token) > MaxToken {
		return Grant{}, ErrInvalid
	}
	data, err := encoding.DecodeString(text)
	if err != nil || len(data) < headLength+sha256.Size || strings.ContainsAny(text, "\r\n") { // the decoder skips those
		return Grant{}, ErrInvalid
	}
	payload, signature := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	ring := k.ring()
	good := false
	for _, key := range ring.keys {
		good = hmac.Equal(mac(key.Reveal(), payload), signature) || good
	}
	if !good {
		return Grant{}, ErrInvalid
	}
	grant, ok := parse(payload)
	switch {
	case !ok:
		return Grant{}, ErrInvalid
	case !now.Before(grant.Until):
		return Grant{}, ErrExpired
	case ring.revoked[grant.ID]:
		return Grant{}, ErrRevoked
	}
	return grant, nil
}

func mac(key string, payload []byte) []byte {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(label))
	h.Write(payload)
	return h.Sum(nil)
}

// parse reads a payload of at least headLength bytes.
func parse(payload []byte) (g Grant, ok bool) {
	end := binary.BigEndian.Uint64(payload[1+idLength:])
	length := int(binary.BigEndian.Uint16(payload[1+idLength+8:]))
	names := payload[headLength:]
	if payload[0] != version || end == 0 || end > maxEnd ||
		length == 0 || length > MaxSubject || length >= len(names) || len(names)-length > MaxSubject {
		return Grant{}, false
	}
	return Grant{
		Subject: descriptor.Entry{Key: string(names[:length]), Value: string(names[length:])},
		Until:   time.Unix(int64(end), 0).UTC(),
		ID:      hex.EncodeToString(payload[1 : 1+idLength]),
	}, true
}
