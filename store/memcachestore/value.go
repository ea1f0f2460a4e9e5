package memcachestore

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/headgate/headgate/limit"
)

const (
	// hashBytes is how much of the SHA-256 of a key is in its name.
	hashBytes = 16
	// maxValue bounds the bytes of a value. Ours have at most 1 + 3*21 + 6, or
	// 2 + 80*21 where there are the tallies of eight limits.
	maxValue = 1 << 11
	// ttlMargin is how much longer than its lifetime a bucket is kept at least:
	// a clock that steps back by less loses nothing.
	ttlMargin = time.Second
	// maxRelativeTTL is the longest time to live that memcached takes for one, in
	// seconds; a larger number is an instant, in seconds since 1970.
	maxRelativeTTL = 30 * 24 * 3600
	// clockSlack is added to such an instant, as memcached judges it by its own
	// clock.
	clockSlack = time.Hour

	kindSlidingWindow = 1 + uint8(limit.SlidingWindow)
	kindFixedWindow   = 1 + uint8(limit.FixedWindow)
)

// tallies is the kind of values with the tallies of several limits.
var tallies = strconv.Itoa(int(limit.KindTallies))

// nameOf returns the name of the bucket of a key, and a number that places it
// on a server and is independent of the name.
func nameOf(prefix string, key []byte) (name string, place uint64) {
	sum := sha256.Sum256(key)
	buf := make([]byte, 0, MaxPrefix+base64.RawURLEncoding.EncodedLen(hashBytes))
	buf = append(buf, prefix...)
	buf = base64.RawURLEncoding.AppendEncode(buf, sum[:hashBytes])
	return string(buf), binary.BigEndian.Uint64(sum[hashBytes:])
}

// placeOf is the number of a server for placing buckets.
func placeOf(server string) uint64 {
	sum := sha256.Sum256([]byte(server))
	return binary.BigEndian.Uint64(sum[:])
}

// weigh mixes the numbers of a bucket and a server (the finalizer of
// SplitMix64): a bucket lies on the server with which it weighs most.
func weigh(bucket, server uint64) uint64 {
	x := bucket ^ server
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// appendState writes a state that is not unused: its kind and its numbers, in
// decimal, with spaces, and the word of its period before the last of them; of
// tallies the words of its Wide.
func appendState(b []byte, s limit.State) []byte {
	if s.Kind == limit.KindTallies {
		b = strconv.AppendUint(b, uint64(s.Kind), 10)
		for _, n := range s.Wide {
			b = strconv.AppendInt(append(b, ' '), n, 10)
		}
		return b
	}
	b = append(b, '0'+s.Kind, ' ')
	b = strconv.AppendInt(b, s.A, 10)
	b = append(b, ' ')
	last := s.B
	if s.Kind == kindSlidingWindow {
		b = strconv.AppendInt(b, s.B, 10)
		b = append(b, ' ')
		last = s.C
	}
	b = append(b, s.Per.String()...)
	return strconv.AppendInt(b, last, 10)
}

// parseState reads a value; what has no known form is the unused state.
func parseState(value string) limit.State {
	kind, rest, _ := strings.Cut(value, " ")
	var s limit.State
	var fields []*int64
	switch kind {
	case "1":
		s.Kind, fields = kindSlidingWindow, []*int64{&s.A, &s.B, &s.C}
	case "2":
		s.Kind, fields = kindFixedWindow, []*int64{&s.A, &s.B}
	case tallies:
		return parseTallies(rest)
	default:
		return limit.State{}
	}
	for i, field := range fields {
		text, more, found := strings.Cut(rest, " ")
		if i == len(fields)-1 {
			word := text[:strings.LastIndexFunc(text, unicode.IsLetter)+1]
			per, err := limit.ParsePer(word)
			if err != nil {
				return limit.State{}
			}
			s.Per, text = per, text[len(word):]
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || found != (i < len(fields)-1) {
			return limit.State{}
		}
		*field, rest = n, more
	}
	return s
}

// parseTallies reads the words of the tallies of several limits.
func parseTallies(words string) limit.State {
	s := limit.State{Kind: limit.KindTallies}
	for word := range strings.SplitSeq(words, " ") {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return limit.State{}
		}
		s.Wide = append(s.Wide, n)
	}
	return s
}

// sameState compares states.
func sameState(a, b limit.State) bool {
	return slices.Equal(a.Wide, b.Wide) && a.Kind == b.Kind && a.Per == b.Per && a.A == b.A && a.B == b.B && a.C == b.C
}

// expiry returns what to send as the time to live of a value that is needed for
// lifetime from now on, a wall time. Memcached counts in whole seconds of a
// clock that is up to one late, so that one more is added.
func expiry(lifetime time.Duration, now time.Time) int64 {
	seconds := int64((lifetime+ttlMargin+time.Second-1)/time.Second) + 1
	if seconds <= maxRelativeTTL {
		return seconds
	}
	// Older servers read 32 bits.
	return min(now.Unix()+seconds+int64(clockSlack/time.Second), math.MaxInt32)
}
