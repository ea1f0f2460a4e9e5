package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// guessLimits are countable, but for the last three.
func guessLimits() []*limit.Limit {
	return []*limit.Limit{
		limit.Must(limit.PerHour(6)), limit.Must(limit.PerHour(1 << 40)), limit.Must(limit.PerMinute(9)),
		limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 5, Period: time.Minute}),
		limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1 << 30, Period: time.Hour}),
		limit.Must(limit.Spec{Quota: 5, Period: time.Hour, CountDenied: true}),
		limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 4, Period: time.Minute, CountDenied: true}),
		limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 5, Period: time.Hour}),
		limit.Must(limit.Spec{Quota: 5, Period: time.Hour, MaxDebt: 3}),
		limit.Must(limit.Spec{Quota: 5, Period: time.Hour, Carry: limit.CarryShare}),
	}
}

// guessedKey is the key of bucket n where hits are guessed to pass, or the one where they
// are not.
func guessedKey(guessed bool, n int) []byte { return fmt.Appendf(nil, "%d, guessed %v", n, guessed) }

// TestGuessesDecideTheSame holds that batches get the same answers and leave the same buckets
// whether their hits are guessed to pass or looked at first, whatever is in the buckets: that
// a guess is wrong is seen by nobody.
func TestGuessesDecideTheSame(t *testing.T) {
	limits, guessed := guessLimits(), 0
	for _, program := range testserver.RedisPrograms {
		t.Run(program, func(t *testing.T) {
			s := openURL(t, testserver.Redis(t, testserver.RedisConfig{Program: program}).URL())
			now := limit.Micros(0)
			setClock(t, s, func() limit.Micros { return now })
			rapid.Check(t, func(rt *rapid.T) {
				mustCommand(rt, s, "FLUSHDB")
				now = limit.Micros(rapid.Int64Range(1_700_000_000_000_000, 1_900_000_000_000_000).Draw(rt, "now"))
				for range rapid.IntRange(1, 6).Draw(rt, "batches") {
					now += limit.Micros(rapid.SampledFrom([]int64{0, 1, 1_000_000, 60_000_000, 3_600_000_000}).Draw(rt, "later"))
					disturb(rt, s, now)
					takes := drawGuessed(rt, limits)
					s.luck.share.Store(0)
					want := takeAll(s, takes...)
					for i := range takes {
						takes[i].Key = guessedKey(true, int(takes[i].Key[0]-'0'))
					}
					s.luck.share.Store(luckWhole)
					got := takeAll(s, takes...)
					if diff := cmp.Diff(want, got); diff != "" {
						rt.Fatalf("at %d, of %d takes (- looked at + guessed)\n%s", now, len(takes), diff)
					}
					guessed += guessesOf(takes)
					for n := range guessedKeys {
						if diff := cmp.Diff(stateAt(t, s, guessedKey(false, n), now), stateAt(t, s, guessedKey(true, n), now)); diff != "" {
							rt.Fatalf("bucket %d (- looked at + guessed)\n%s", n, diff)
						}
						for _, key := range [][]byte{guessedKey(true, n), guessedKey(false, n)} {
							if ttl, _ := tryCommand(s, "PTTL", s.Name(key)); ttl == "-1" {
								rt.Fatalf("%s lives for ever", key)
							}
						}
					}
				}
			})
		})
	}
	if guessed == 0 {
		t.Error("nothing was guessed")
	}
}

const guessedKeys = 8

// disturb puts something else into a bucket, as another node might.
func disturb(t *rapid.T, s *Store, now limit.Micros) {
	if rapid.IntRange(0, 2).Draw(t, "disturbed") > 0 {
		return
	}
	state, n := drawPacked(t, now, longForms, nearAhead)
	value := rapid.SampledFrom([]string{fmt.Sprint(n), markedText(state), "0", "17", "9223372036854775807", "no state"}).Draw(t, "value")
	at := rapid.IntRange(0, guessedKeys-1).Draw(t, "bucket")
	for _, guessed := range []bool{false, true} {
		mustCommand(t, s, "SET", s.Name(guessedKey(guessed, at)), value, "PX", "86400000")
	}
}

// drawGuessed draws takes of which most may be guessed to pass, alone and in groups.
func drawGuessed(t *rapid.T, limits []*limit.Limit) []store.Take {
	var takes []store.Take
	some := rapid.SampledFrom([][]int64{{1}, {1}, {1}, {2}, {300}, {1, 3}}).Draw(t, "hits of the batch")
	for group := range rapid.IntRange(1, 7).Draw(t, "groups") {
		hits := rapid.SampledFrom(some).Draw(t, "hits")
		size := rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "size")
		for range size {
			take := store.Take{
				Key:   guessedKey(false, rapid.IntRange(0, guessedKeys-1).Draw(t, "key")),
				Limit: limits[rapid.IntRange(0, len(limits)-1).Draw(t, "limit")], Hits: hits,
			}
			if size > 1 {
				take.Group = uint32(1 + group)
			}
			if rapid.IntRange(0, 9).Draw(t, "rare") == 0 {
				take.Op = rapid.SampledFrom([]store.Op{store.Hit, store.Refund, store.Reset, store.Charge}).Draw(t, "op")
				take.Shadow = rapid.Bool().Draw(t, "shadow")
				take.Hits = rapid.Int64Range(0, 3).Draw(t, "other hits")
			}
			takes = append(takes, take)
		}
	}
	return takes
}

// guessesOf returns how many operations of takes a call would guess.
func guessesOf(takes []store.Take) int {
	r := request{packs: true, guesses: true}
	r.encode("", header{}, takes)
	guessed := 0
	for i := range r.ops {
		if r.ops[i].likely {
			guessed++
		}
	}
	return guessed
}

// TestGuessesOfMany: what does not fit into the numbers of a record goes on in the next one, or is
// looked at first. Each batch comes twice, so that there is something to guess.
func TestGuessesOfMany(t *testing.T) {
	s, _ := openRedis(t)
	setClock(t, s, func() limit.Micros { return 1_780_315_230_000_000 })
	many, few := limit.Must(limit.PerHour(1000)), limit.Must(limit.PerHour(5))
	for name, batch := range map[string]func() (takes []store.Take){
		"takes of one limit": func() (takes []store.Take) {
			for i := range 2*maxUnits + 3 {
				takes = append(takes, store.Take{Key: fmt.Appendf(nil, "take %d", i), Limit: many, Hits: 1})
			}
			return takes
		},
		"limits": func() (takes []store.Take) {
			for i := range maxNumbered + 3 {
				takes = append(takes, store.Take{Key: fmt.Appendf(nil, "limit %d", i), Limit: limit.Must(limit.PerHour(int64(1000 + i))), Hits: 1})
			}
			return takes
		},
		"takes of one group": func() (takes []store.Take) {
			for i := range maxUnit + 2 {
				takes = append(takes, store.Take{Key: fmt.Appendf(nil, "group %d", i), Limit: many, Hits: 1, Group: 1})
			}
			return takes
		},
		"takes of as many as fit": func() (takes []store.Take) {
			for i := range maxUnit {
				takes = append(takes, store.Take{Key: fmt.Appendf(nil, "fitting %d", i), Limit: many, Hits: 1, Group: 1})
			}
			return takes
		},
		"hits of others": func() (takes []store.Take) {
			for i := range 6 {
				takes = append(takes, store.Take{Key: fmt.Appendf(nil, "hits %d", i), Limit: few, Hits: int64(1 + i%3)})
			}
			return takes
		},
	} {
		s.luck.share.Store(luckWhole)
		takes := batch()
		takeAll(s, takes...)
		s.luck.share.Store(luckWhole)
		for i, r := range takeAll(s, takes...) {
			l, hits := takes[i].Limit, takes[i].Hits
			if r.Err != nil || r.Allowed != (2*hits <= l.Quota) || r.Allowed && r.Remaining != l.Quota-2*hits {
				t.Fatalf("%s: take %d of %d: %+v", name, i, len(takes), r)
			}
		}
	}
}

// TestShadowsAreNotGuessed: a take in shadow that would be denied denies its group nothing.
func TestShadowsAreNotGuessed(t *testing.T) {
	s, _ := openRedis(t)
	setClock(t, s, func() limit.Micros { return 1_780_315_230_000_000 })
	few, many := limit.Must(limit.PerHour(3)), limit.Must(limit.PerHour(1000))
	takeOne(s, "full", few, 3)
	takeOne(s, "other", many, 1)
	s.luck.share.Store(luckWhole)
	got := takeAll(s,
		store.Take{Key: []byte("full"), Limit: few, Hits: 1, Shadow: true, Group: 1},
		store.Take{Key: []byte("other"), Limit: many, Hits: 1, Group: 1})
	if got[0].Err != nil || got[0].Allowed || !got[1].Allowed || got[1].Remaining != 998 {
		t.Errorf("%+v", got)
	}
}

// TestGuessesAreTakenBack holds that a wrong guess leaves nothing: neither hits, nor a key
// that would live for ever.
func TestGuessesAreTakenBack(t *testing.T) {
	s, _ := openRedis(t)
	now := limit.Micros(1_780_315_230_000_000)
	setClock(t, s, func() limit.Micros { return now })
	l, none := limit.Must(limit.PerHour(3)), limit.Must(limit.PerHour(0))
	takeOne(s, "full", l, 3)
	before := command(t, s, "GET", s.Name([]byte("full")))
	s.luck.share.Store(luckWhole)
	for _, r := range takeAll(s,
		store.Take{Key: []byte("full"), Limit: l, Hits: 1}, store.Take{Key: []byte("new"), Limit: none, Hits: 1},
		store.Take{Key: []byte("first"), Limit: l, Hits: 1, Group: 1}, store.Take{Key: []byte("second"), Limit: none, Hits: 1, Group: 1}) {
		if r.Err != nil || r.Limit == 0 && r.Allowed {
			t.Errorf("got %+v", r)
		}
	}
	if after := command(t, s, "GET", s.Name([]byte("full"))); after != before {
		t.Errorf("%s is %s after a denied hit", before, after)
	}
	if n := command(t, s, "DBSIZE"); n != "1" {
		t.Errorf("%s keys, want the one that was there", n)
	}
}

// TestLuck holds that a node guesses only after it has seen that it would be right, and
// stops where it would not.
func TestLuck(t *testing.T) {
	s, _ := openRedis(t)
	l := limit.Must(limit.PerDay(1000))
	take := func(key string) { takeOne(s, key, l, 1) }
	for n := 0; !s.luck.likely(); n++ {
		if take("same"); n > 10*luckWeight {
			t.Fatalf("no guess after %d hits on one bucket", n)
		}
	}
	for n := 0; s.luck.likely(); n++ {
		if take(fmt.Sprint("new ", n)); n > luckWeight {
			t.Fatalf("guesses go on after %d hits on new buckets", n)
		}
	}
}

// TestGuessesWeighWindows goes through every count of the window before and many instants of
// this one, hit by hit until one is denied: what is left of the window before is rounded up, and
// a guess lets pass what a look lets pass, to the hit.
func TestGuessesWeighWindows(t *testing.T) {
	s, _ := openRedis(t)
	const hour = limit.Micros(time.Hour / time.Microsecond)
	now := limit.Micros(0)
	setClock(t, s, func() limit.Micros { return now })
	l := limit.Must(limit.PerHour(7))
	begins := 495_000 * hour
	for before := int64(1); before <= 7; before++ {
		for at := limit.Micros(1); at < hour; at += 397_000_003 {
			command(t, s, "FLUSHDB")
			var answers [2]string
			for i, share := range []int32{0, luckWhole} {
				key := fmt.Sprint(i)
				now = begins
				s.luck.share.Store(0)
				takeOne(s, key, l, before)
				now += hour + at
				for range 9 {
					s.luck.share.Store(share)
					answers[i] += fmt.Sprintf("%+v\n", takeOne(s, key, l, 1))
				}
			}
			if answers[0] != answers[1] {
				t.Fatalf("%d hits before, %d us in: looked at\n%sguessed\n%s", before, at, answers[0], answers[1])
			}
		}
	}
}

// TestGuessesOfChargedDenials: what is denied and charged is told, and noted, as package limit
// decides it, whether it is looked at first or guessed, up to a count far beyond the limit.
func TestGuessesOfChargedDenials(t *testing.T) {
	const begins = limit.Micros(1_780_315_200_000_000) // of an hour
	for _, algorithm := range []limit.Algorithm{limit.SlidingWindow, limit.FixedWindow} {
		l := limit.Must(limit.Spec{Algorithm: algorithm, Quota: 3, Period: time.Hour, CountDenied: true})
		for _, share := range []int32{0, luckWhole} {
			s, _ := openRedis(t)
			now := begins
			setClock(t, s, func() limit.Micros { return now })
			var state limit.State
			for i := range int64(12) {
				if i == 8 {
					now += limit.Micros(80 * time.Minute / time.Microsecond)
				}
				hits := 1 + i%2
				var want limit.Decision
				limit.DecideInPlace(l, &state, now, hits, &want)
				s.luck.share.Store(share)
				if got := takeOne(s, "key", l, hits); got.Err != nil || got.Decision != want {
					t.Fatalf("%v, luck %d, take %d: got %+v, want %+v", algorithm, share, i, got, want)
				}
				if got := stateAt(t, s, []byte("key"), now); !cmp.Equal(got, state) {
					t.Fatalf("%v, luck %d, take %d: the bucket holds %+v, want %+v", algorithm, share, i, got, state)
				}
			}
		}
	}
	// What is noted for a failover is the state after it.
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 3, Period: time.Hour, CountDenied: true})
	o, result := operation{times: 1}, store.Result{}
	if ok := o.readPacked(-packedAt(7, begins, 6, 0), begins, l, 2, &result); !ok || result.Allowed || o.state.B != 6 {
		t.Errorf("read %v: %+v, noted %+v", ok, result, o.state)
	}
	if (&operation{times: 1}).readPacked(-packedAt(7, begins, 1, 0), begins, l, 2, &result) {
		t.Error("a count after two hits is 1")
	}
}
