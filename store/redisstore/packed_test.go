package redisstore

import (
	"fmt"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// packedAt returns the integer for counts in the window that at is in.
func packedAt(form int, at limit.Micros, current, previous int64) int64 {
	window := int64(at) / packedForms[form].period
	return int64(form)<<packedFormShift | window%packedWindows<<packedWindowShift | previous<<packedCountShift | current
}

// markedText returns the text form of a window counter.
func markedText(s limit.State) string {
	mark := ""
	for zeros, word := range marks {
		if word != "" && s.Per.String() == word {
			mark = "0000"[:zeros]
		}
	}
	if s.Kind == 1 {
		return fmt.Sprintf("1 %d %d %s%d", s.A, s.B, mark, s.C)
	}
	return fmt.Sprintf("2 %d %s%d", s.A, mark, s.B)
}

var (
	everyForm = []int64{1, 2, 3, 4, 5, 6, 7}
	longForms = []int64{2, 3, 4, 6, 7} // on which no test of real time depends
	anyAhead  = []int64{0, 0, 0, -1, -1, -2, -3, 1, 2, 5, 59, 60}
	nearAhead = []int64{0, 0, 0, -1, -2, 1, 2}
)

// drawPacked draws a state that has one of these packed forms, of a window so many ahead
// of that of now, and the integer that it is.
func drawPacked(t *rapid.T, now limit.Micros, forms, ahead []int64) (limit.State, int64) {
	form := int(rapid.SampledFrom(forms).Draw(t, "form"))
	f := packedForms[form]
	count := rapid.OneOf(rapid.Int64Range(0, 12), rapid.SampledFrom([]int64{packedCounts - 1, packedCounts / 2}))
	window := int64(now)/f.period + rapid.SampledFrom(ahead).Draw(t, "ahead")
	s := limit.State{Kind: 1 + uint8(f.algorithm), A: window * f.period, B: count.Draw(t, "current")}
	if f.algorithm == limit.SlidingWindow {
		s.C = count.Draw(t, "previous")
	}
	s.Per = f.per
	return s, packedAt(form, limit.Micros(s.A), s.B, s.C)
}

// TestPackedSaysTheState holds that a packed value and the text of the same state are read
// as the same state.
func TestPackedSaysTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := limit.Micros(rapid.Int64Range(1_600_000_000_000_000, 3_000_000_000_000_000).Draw(t, "now"))
		want, n := drawPacked(t, now, everyForm, anyAhead)
		text := strconv.FormatInt(n, 10)
		if len(text) != packedDigits || n >= 1<<53 {
			t.Fatalf("%d is no packed value", n)
		}
		if got := parseState(text, now); !reflect.DeepEqual(got, want) {
			t.Fatalf("%d at %d: %+v, want %+v", n, now, got, want)
		}
		if got := parseState(markedText(want), now); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %+v, want %+v", markedText(want), got, want)
		}
	})
}

// FuzzUnpack holds that whatever integer a bucket holds is read without a panic: as a
// state that is packed as that integer, or as none.
func FuzzUnpack(f *testing.F) {
	const now = 1_780_315_230_000_000
	f.Add(int64(0), int64(now))
	f.Add(packedAt(2, now, 7, 9), int64(now))
	f.Add(packedAt(7, now, 7, 0), int64(now))
	f.Add(int64(1)<<53-1, int64(now))
	f.Fuzz(func(t *testing.T, n, at int64) {
		s := unpack(n, limit.Micros(at))
		if s.Kind == 0 {
			return
		}
		for form := range packedForms {
			if form > 0 && packedAt(form, limit.Micros(s.A), s.B, s.C) == n && 1+uint8(packedForms[form].algorithm) == s.Kind {
				return
			}
		}
		if s.A != 0 { // a window before 1970 is none
			t.Errorf("%d at %d: %+v", n, at, s)
		}
	})
}

// TestPackedIsReadByEveryScript holds that each script finds in a packed value what it
// finds in the text of the same state: takes by any limit and op, leases, and what is
// brought back after a failover.
func TestPackedIsReadByEveryScript(t *testing.T) {
	for _, program := range testserver.RedisPrograms {
		t.Run(program, func(t *testing.T) {
			s := openURL(t, testserver.Redis(t, testserver.RedisConfig{Program: program}).URL())
			now := limit.Micros(0)
			setClock(t, s, func() limit.Micros { return now })
			rapid.Check(t, func(rt *rapid.T) {
				now = limit.Micros(rapid.Int64Range(1_700_000_000_000_000, 1_900_000_000_000_000).Draw(rt, "now"))
				state, n := drawPacked(rt, now, everyForm, anyAhead)
				l, err := limit.New(drawSpec(rt))
				if err != nil || l.Algorithm == limit.Concurrency {
					l = tenPerHour
				}
				take := store.Take{
					Limit: l, Hits: rapid.Int64Range(0, 12).Draw(rt, "hits"),
					Op: rapid.SampledFrom([]store.Op{store.Hit, store.Hit, store.Refund, store.Reset, store.Charge}).Draw(rt, "op"),
				}
				packed, text := take, take
				packed.Key, text.Key = []byte("packed"), []byte("text")
				mustCommand(rt, s, "SET", s.Name(packed.Key), strconv.FormatInt(n, 10), "PX", "86400000")
				mustCommand(rt, s, "SET", s.Name(text.Key), markedText(state), "PX", "86400000")
				got, want := takeAll(s, packed)[0], takeAll(s, text)[0]
				if got.Err != nil || want.Err != nil || got != want {
					rt.Fatalf("%+v of %d, %+v: %+v, of its text %+v", take, n, state, got, want)
				}
				if diff := cmp.Diff(stateAt(t, s, text.Key, now), stateAt(t, s, packed.Key, now)); diff != "" {
					rt.Fatalf("%+v of %d, %+v leaves (- text + packed)\n%s", take, n, state, diff)
				}
				leased := []store.LeaseRequest{leaseRequest("packed", tenPerHour, 1, 5), leaseRequest("text", tenPerHour, 1, 5)}
				if l.Algorithm != limit.SlidingLog && rapid.Bool().Draw(rt, "leased") {
					leased[0].Limit, leased[1].Limit = l, l
				}
				mustCommand(rt, s, "SET", s.Name(packed.Key), strconv.FormatInt(n, 10), "PX", "86400000")
				mustCommand(rt, s, "SET", s.Name(text.Key), markedText(state), "PX", "86400000")
				mustCommand(rt, s, "DEL", registerOf(s, "packed"), registerOf(s, "text"))
				if grants := leaseAll(s, leased...); grants[0] != grants[1] {
					rt.Fatalf("lease of %d, %+v: %+v, of its text %+v", n, state, grants[0], grants[1])
				}
			})
		})
	}
}

// stateAt returns the state of a bucket, by a clock that shows now.
func stateAt(t *testing.T, s *Store, key []byte, now limit.Micros) limit.State {
	t.Helper()
	value, err := tryCommand(s, "GET", s.Name(key))
	if err != nil {
		return limit.State{}
	}
	return parseState(value, now)
}

// TestPackedIsMerged holds that what a failover has lost is merged into a packed value as
// into the text of it.
func TestPackedIsMerged(t *testing.T) {
	s, _ := openRedis(t)
	rapid.Check(t, func(rt *rapid.T) {
		now := limit.Micros(time.Now().UnixMicro())
		state, n := drawPacked(rt, now, longForms, nearAhead)
		known := state
		known.A += rapid.SampledFrom([]int64{0, 0, -1, 1}).Draw(rt, "later") * packedForms[n>>packedFormShift].period
		known.B = rapid.Int64Range(0, 20).Draw(rt, "known")
		var values [2]string
		for i, value := range []string{strconv.FormatInt(n, 10), markedText(state)} {
			hash := hashOf([]byte{byte(i)})
			body := &seedBody{prefix: s.prefix(hash), seeds: []seed{{remembered{
				hash: hash, kind: known.Kind, a: known.A, b: known.B, c: known.C, period: packedForms[n>>packedFormShift].period,
			}, time.Hour}}}
			keys, args := body.encode(header{number: 7})
			mustCommand(rt, s, "SET", keys[0], value, "PX", "3600000")
			mustCommand(rt, s, append([]string{"EVAL", seedScript.text(), "1", keys[0]}, args...)...)
			var err error
			if values[i], err = tryCommand(s, "GET", keys[0]); err != nil {
				rt.Fatal(err)
			}
		}
		packed, text := parseState(values[0], now), parseState(values[1], now)
		packed.Per, text.Per = 0, 0 // what is merged has no mark
		if !reflect.DeepEqual(packed, text) {
			rt.Fatalf("%+v and %+v: %q of the packed, %q of the text", state, known, values[0], values[1])
		}
	})
}

// TestNoPackedForm holds that integers of 16 digits which are no packed value count as an
// unused bucket, and are overwritten.
func TestNoPackedForm(t *testing.T) {
	s, _ := openRedis(t)
	now := limit.Micros(1_780_315_230_000_000)
	setClock(t, s, func() limit.Micros { return now })
	for _, n := range []int64{1e15, 1<<packedFormShift - 1, packedAt(6, now, 3, 5), 1 << 53, 1e16 - 1} {
		for i, l := range everyLimit() {
			key := fmt.Sprintf("key %d of %d", i, n)
			command(t, s, "SET", s.Name([]byte(key)), strconv.FormatInt(n, 10))
			if state := parseState(strconv.FormatInt(n, 10), now); state.Kind != 0 {
				t.Errorf("%d is read as %+v", n, state)
			}
			if got, want := takeOne(s, key, l, 3), takeOne(s, "unused "+key, l, 3); got != want {
				t.Errorf("%v on %d: %+v, want %+v", l.Algorithm, n, got, want)
			}
		}
	}
}
