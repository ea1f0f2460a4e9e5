package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/limit"
)

// stampBytes is the length of a stamp in the value of a sliding_log.
const stampBytes = 7

// Bucket is what Redis holds for one key, for tools and people.
type Bucket struct {
	// Name is the name of the key in Redis. It ends in raw bytes: print it
	// with %q.
	Name string
	// Found says whether Redis holds it. What is not found is unused.
	Found bool
	// Value is the stored value as it is.
	Value string
	// State is the decoded Value; its Kind is 0 if Value has no known form.
	State limit.State
	// TTL is how long Redis will keep it, in whole milliseconds.
	TTL time.Duration
}

// Name returns the name under which the bucket of a Take.Key is stored.
func (s *Store) Name(key []byte) string { return string(s.appendName(nil, hashOf(key))) }

// Lookup reads the bucket of a Take.Key without changing it. It lasts no longer
// than the budget; its errors are *store.Error.
func (s *Store) Lookup(ctx context.Context, key []byte) (Bucket, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Budget)
	defer cancel()
	b := Bucket{Name: s.Name(key)}
	sh, fault := s.shard(s.tag(hashOf(key)))
	if fault != nil {
		return b, fault
	}
	answer, err := sh.do(ctx, "lookup", func(c rueidis.Builder) rueidis.Completed { return c.Get().Key(b.Name).Build() })
	if err != nil || answer.IsNil() {
		return b, err
	}
	if b.Value, err = answer.ToString(); err != nil {
		return b, sh.fault("lookup", errBadReply)
	}
	answer, err = sh.do(ctx, "lookup", func(c rueidis.Builder) rueidis.Completed { return c.Pttl().Key(b.Name).Build() })
	if err != nil {
		return b, err
	}
	left, err := answer.ToInt64()
	if err != nil {
		return b, sh.fault("lookup", errBadReply)
	}
	b.Found = true
	b.TTL = time.Duration(max(left, 0)) * time.Millisecond
	b.State = parseState(b.Value)
	return b, nil
}

// parseState reads a value as the script does; what has no known form is the
// unused state.
func parseState(value string) limit.State {
	if value == "" {
		return limit.State{}
	}
	if value[0] == '4' {
		return parseLog(value[1:])
	}
	kind, rest, ok := strings.Cut(value, " ")
	if !ok || len(kind) != 1 || kind[0] < '1' || kind[0] > '8' {
		return limit.State{}
	}
	var fields []int64
	for text := range strings.SplitSeq(rest, " ") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return limit.State{}
		}
		fields = append(fields, n)
	}
	s := limit.State{Kind: kind[0] - '0'}
	switch {
	case s.Kind == 1 && len(fields) == 3:
		s.A, s.B, s.C = fields[0], fields[1], fields[2]
	case s.Kind == 3 && len(fields) > 2:
		s.A, s.B, s.Wide = fields[0], fields[1], fields[2:]
	case s.Kind != 1 && s.Kind != 3 && len(fields) == 2:
		s.A, s.B = fields[0], fields[1]
	default:
		return limit.State{}
	}
	return s
}

// parseLog reads the stamps of a sliding_log.
func parseLog(text string) limit.State {
	if len(text) == 0 || len(text)%stampBytes != 0 {
		return limit.State{}
	}
	s := limit.State{Kind: 1 + uint8(limit.SlidingLog)}
	for ; text != ""; text = text[stampBytes:] {
		var stamp int64
		for i := range stampBytes {
			stamp = stamp<<8 | int64(text[i])
		}
		s.Wide = append(s.Wide, stamp)
	}
	return s
}
