package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/redisstore/conn"
)

const (
	// stampBytes is the length of a stamp in the value of a sliding_log, and
	// slotBytes that of a slot in the value of concurrency.
	stampBytes = 7
	slotBytes  = 2 * stampBytes
)

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
	// Now is the instant of Redis's clock just after it was read.
	Now limit.Micros
}

// Name returns the name under which the bucket of a Take.Key is stored.
func (s *Store) Name(key []byte) string { return s.name(hashOf(key)) }

// Lookup reads the bucket of a Take.Key without changing it. It lasts no longer
// than the budget; its errors are *store.Error.
func (s *Store) Lookup(ctx context.Context, key []byte) (Bucket, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Budget)
	defer cancel()
	b := Bucket{Name: s.Name(key)}
	sh, fault := s.shard(s.keyTag(key))
	if fault != nil {
		return b, fault
	}
	answer, err := sh.Do(ctx, "lookup", resp.Words("GET", b.Name))
	if err != nil || answer.Err() != nil {
		return b, err
	}
	if b.Value, err = answer.Text(); err != nil {
		return b, sh.Fault("lookup", conn.ErrBadReply)
	}
	answer, err = sh.Do(ctx, "lookup", resp.Words("PTTL", b.Name))
	if err != nil {
		return b, err
	}
	left, err := answer.Int()
	if err != nil {
		return b, sh.Fault("lookup", conn.ErrBadReply)
	}
	if b.Now, err = s.instant(ctx, sh); err != nil {
		return b, err
	}
	b.Found = true
	b.TTL = time.Duration(max(left, 0)) * time.Millisecond
	b.State = parseState(b.Value, b.Now)
	return b, nil
}

// instant returns the instant that buckets of sh are decided at now.
func (s *Store) instant(ctx context.Context, sh *shard) (limit.Micros, error) {
	if s.clock != nil { // in tests
		return s.clock(), nil
	}
	return sh.time(ctx)
}

// time asks for the instant of Redis's clock.
func (sh *shard) time(ctx context.Context) (limit.Micros, error) {
	answer, err := sh.Do(ctx, "lookup", resp.Words("TIME"))
	if err != nil {
		return 0, err
	}
	var now limit.Micros
	words, err := answer.Texts()
	if err == nil {
		now, err = conn.ParseTime(words)
	}
	if err != nil {
		return 0, sh.Fault("lookup", conn.ErrBadReply)
	}
	return now, nil
}

// parseState reads a value as the script does at now; what has no known form is the
// unused state.
func parseState(value string, now limit.Micros) limit.State {
	if len(value) == packedDigits && '1' <= value[0] && value[0] <= '9' {
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			return unpack(n, now)
		}
	}
	return parseText(value, now)
}

// parseText is parseState for a value that is no integer.
func parseText(value string, now limit.Micros) limit.State {
	if value == "" {
		return limit.State{}
	}
	if inner, ok := strings.CutPrefix(value, "11 "); ok {
		if tallies, ok := strings.CutPrefix(inner, "*"); ok {
			return parseTallies(tallies, now)
		}
		return parseTerms(inner, now)
	}
	switch value[0] {
	case '4':
		return parseNumbers(limit.SlidingLog, value[1:], 1)
	case '9':
		return parseNumbers(limit.Concurrency, value[1:], slotBytes/stampBytes)
	}
	kind, rest, _ := strings.Cut(value, " ")
	var s limit.State
	if kind == "1" || kind == "2" {
		s.Per, rest = cutMark(rest)
	}
	var fields []int64
	for text := range strings.SplitSeq(rest, " ") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 && (len(fields) > 0 || kind == "3" || kind == "10") {
			return limit.State{}
		}
		fields = append(fields, n)
	}
	switch {
	case (kind == "1" || kind == "10") && len(fields) == 3:
		s.A, s.B, s.C = fields[0], fields[1], fields[2]
	case kind == "3" && len(fields) > 2:
		s.A, s.B, s.Wide = fields[0], fields[1], fields[2:]
	case strings.Contains("25678", kind) && len(kind) == 1 && len(fields) == 2:
		s.A, s.B = fields[0], fields[1]
	default:
		return limit.State{}
	}
	n, _ := strconv.Atoi(kind)
	s.Kind = uint8(n)
	return s
}

// marks are those of the periods that are most used; all others are words.
var marks = [...]string{1: "1m", 2: "1h", 3: "1d", 4: "1s"}

// cutMark takes the mark out of the fields of a window counter, before the last.
func cutMark(fields string) (limit.Per, string) {
	before := strings.LastIndexByte(fields, ' ') + 1
	last := fields[before:]
	count := strings.TrimLeft(last, "0")
	if count == "" && last != "" {
		count = "0"
	}
	if zeros := len(last) - len(count); zeros > 0 && zeros < len(marks) {
		per, _ := limit.ParsePer(marks[zeros])
		return per, fields[:before] + count
	}
	word := strings.TrimRight(last, "0123456789")
	per, err := limit.ParsePer(word)
	if err != nil {
		return 0, fields
	}
	return per, fields[:before] + last[len(word):]
}

// parseTerms reads a state with the terms of its limit, which come first.
func parseTerms(value string, now limit.Micros) limit.State {
	s := limit.State{Kind: limit.KindTerms}
	for _, field := range [...]*int64{&s.A, &s.B, &s.C} {
		text, rest, _ := strings.Cut(value, " ")
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return limit.State{}
		}
		*field, value = int64(n), rest
	}
	inner := parseText(value, now)
	if inner.Kind == 0 || inner.Kind > 1+uint8(limit.GCRA) {
		return limit.State{}
	}
	s.Wide = append([]int64{int64(inner.Kind) | int64(inner.Per)<<8, inner.A, inner.B, inner.C}, inner.Wide...)
	return s
}

// parseTallies reads the tallies of several limits; carry.lua has the form.
func parseTallies(value string, now limit.Micros) limit.State {
	s := limit.State{Kind: limit.KindTallies}
	for value != "" {
		header, rest, _ := strings.Cut(strings.TrimPrefix(value, " "), ":")
		var n [6]int64 // terms, ends, since, length
		fields := strings.Split(header, " ")
		for i, field := range fields {
			var err error
			if len(fields) != len(n) {
				return limit.State{}
			}
			if n[i], err = strconv.ParseInt(field, 10, 64); err != nil {
				return limit.State{}
			}
		}
		length := n[5]
		if length < 0 || length > int64(len(rest)) {
			return limit.State{}
		}
		inner := parseState(rest[:length], now)
		if rest[:length] == "4" { // a log that has counted nothing
			inner.Kind = 1 + uint8(limit.SlidingLog)
		}
		if inner.Kind == 0 || inner.Kind > 1+uint8(limit.GCRA) {
			return limit.State{}
		}
		s.Wide = append(s.Wide, int64(inner.Kind)|int64(inner.Per)<<8, n[0], n[1], n[2], inner.A, inner.B, inner.C, n[3], n[4], int64(len(inner.Wide)))
		s.Wide = append(s.Wide, inner.Wide...)
		value = rest[length:]
	}
	return s
}

// parseNumbers reads the state of an algorithm whose value is numbers of seven
// bytes, so many to each thing that it remembers.
func parseNumbers(a limit.Algorithm, text string, each int) limit.State {
	if len(text) == 0 || len(text)%(each*stampBytes) != 0 {
		return limit.State{}
	}
	s := limit.State{Kind: 1 + uint8(a)}
	for ; text != ""; text = text[stampBytes:] {
		var n int64
		for i := range stampBytes {
			n = n<<8 | int64(text[i])
		}
		s.Wide = append(s.Wide, n)
	}
	return s
}
