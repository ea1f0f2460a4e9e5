package redisstore

import (
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// slotsOf is a limit of so many requests in flight.
func slotsOf(quota int64, timeout time.Duration) *limit.Limit {
	return limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: quota, Period: timeout})
}

// threeStrikes bans for an hour after three denials in a minute.
var threeStrikes = limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 3, Period: time.Minute, BanFor: time.Hour})

// byHold makes a take on one bucket by a hold; of a Hit it is one hit.
func byHold(hold limit.Hold, op store.Op, l *limit.Limit) store.Take {
	return store.Take{Key: []byte("key"), Limit: l, Hits: 1, Hold: hold, Op: op}
}

// chargeOne counts denials.
func chargeOne(s *Store, key string, l *limit.Limit, denials int64) store.Result {
	return takeAll(s, store.Take{Key: []byte(key), Limit: l, Hits: denials, Op: store.Charge})[0]
}

// The script and package limit take, keep and free the same slots and end bans at
// the same instants: with few slots, few holds, limits that change and a clock that
// steps back, so that all of that meets in one bucket.
func TestSlotsAndBansEqualLimit(t *testing.T) {
	racetest.Serially(t)
	s, _ := openRedis(t)
	var now limit.Micros
	setClock(t, s, func() limit.Micros { return now })
	draw := func(t *rapid.T) *limit.Limit {
		period := rapid.SampledFrom([]time.Duration{7 * time.Microsecond, time.Second, time.Minute}).Draw(t, "period")
		if rapid.IntRange(0, 2).Draw(t, "ban") == 0 {
			length := rapid.SampledFrom([]time.Duration{3 * time.Microsecond, time.Second, time.Hour}).Draw(t, "length")
			return limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: rapid.Int64Range(1, 9).Draw(t, "denials"), Period: period, BanFor: length})
		}
		return slotsOf(rapid.Int64Range(0, 5).Draw(t, "quota"), period)
	}
	rapid.Check(t, func(t *rapid.T) {
		mustCommand(t, s, "FLUSHALL")
		m := newModel(s, 0)
		limits := []*limit.Limit{draw(t), draw(t), draw(t), tenPerHour, rapid.SampledFrom(besideHolds).Draw(t, "beside")}
		now = 1_763_666_315_123_456
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			now = max(now+drawStep(t, limits[0]), 1)
			m.now = now
			takes := drawTakes(t, limits)
			if rapid.IntRange(0, 3).Draw(t, "dry run") == 0 {
				after := m.copied()
				compareAnswers(t, now, takes, after.take(takes), takeAll(s, dry(takes)...))
				compareStates(t, s, m)
			}
			compareAnswers(t, now, takes, m.take(takes), takeAll(s, takes...))
			compareStates(t, s, m)
		}
	})
}

// besideHolds are limits of other kinds that stand in one group with slots and bans.
var besideHolds = []*limit.Limit{
	limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 7, Period: time.Second, CountDenied: true}),
	limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 5, Period: time.Minute, Burst: 4}),
	limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 3, Period: time.Second, Burst: 9}),
	limit.Must(limit.Spec{Algorithm: limit.LeakyQueue, Quota: 3, Period: time.Second, MaxQueue: 5}),
	limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 6, Period: time.Minute}),
}

// Hundreds of slots, most of them in use, over many timeouts: taken, released,
// renewed, lapsed, and pulled back when the clock steps back.
func TestManySlotsEqualLimit(t *testing.T) {
	racetest.Serially(t)
	s, _ := openRedis(t)
	m := newModel(s, 1_780_315_200_000_000)
	setClock(t, s, func() limit.Micros { return m.now })
	l := slotsOf(300, 10*time.Second)
	random := rand.New(rand.NewPCG(5, 6))
	most, lapsed := 0, 0
	for i := range 2500 {
		m.now += limit.Micros(random.Int64N(20_000))
		op := []store.Op{store.Hit, store.Hit, store.Hit, store.Renew, store.Release, store.Refund}[random.IntN(6)]
		take := byHold(1+limit.Hold(random.IntN(700))<<30, op, l)
		switch {
		case i%701 == 0:
			m.now += 4_000_000
			lapsed++
		case i%997 == 0:
			m.now -= 3_600_000_000
		}
		want, got := m.take([]store.Take{take}), takeAll(s, take)[0]
		if got.Err != nil || got.Decision != want[0] {
			t.Fatalf("step %d, op %d: script %+v, limit %+v", i, op, got, want[0])
		}
		b, err := s.Lookup(t.Context(), take.Key)
		if err != nil {
			t.Fatal(err)
		}
		if want := m.states["key"]; !reflect.DeepEqual(want, b.State) { // faster than cmp.Diff
			t.Fatalf("step %d, op %d (- limit, + script):\n%s", i, op, cmp.Diff(want, b.State))
		}
		most = max(most, len(b.State.Wide)/2)
	}
	if most < 250 || lapsed == 0 {
		t.Errorf("at most %d slots were in use", most)
	}
}

// A hold whose bytes stand in the value across an end and another hold, or across a
// hold and the next end, is not found there.
func TestHoldAcrossTwoNumbers(t *testing.T) {
	s, _ := openRedis(t)
	now := limit.Micros(0x06_01_02_03_04_05_06)
	setClock(t, s, func() limit.Micros { return now })
	l := slotsOf(9, 16*time.Microsecond) // so the slots end at 0x06_01_02_03_04_05_16
	for _, hold := range []limit.Hold{0x11_12_13_14_15_16_17, 0x19_22_23_24_25_26_27} {
		takeAll(s, byHold(hold, store.Hit, l))
	}
	for _, across := range []limit.Hold{
		0x01_02_03_04_05_16_11, // of an end and a hold
		0x05_16_11_12_13_14_15,
		0x16_17_06_01_02_03_04, // of a hold and the next end
		0x12_13_14_15_16_17_06,
		0x06_01_02_03_04_05_16, // an end
	} {
		if r := takeAll(s, byHold(across, store.Release, l))[0]; r.Err != nil || r.Remaining != 7 {
			t.Errorf("release of %x: %+v", uint64(across), r)
		}
		if r := takeAll(s, byHold(across, store.Hit, l))[0]; r.Err != nil || r.Remaining != 6 {
			t.Errorf("hold %x shares a slot: %+v", uint64(across), r)
		}
		if r := takeAll(s, byHold(across, store.Release, l))[0]; r.Err != nil || r.Remaining != 7 {
			t.Errorf("second release of %x: %+v", uint64(across), r)
		}
	}
}

// Slots that end later than they can are pulled back, also to an instant whose bytes
// mean something in a pattern.
func TestSlotsArePulledBack(t *testing.T) {
	s, _ := openRedis(t)
	percents := limit.Micros(0x06_25_25_25_25_25_25)
	now := percents
	setClock(t, s, func() limit.Micros { return now })
	m := newModel(s, 0)
	long, short := slotsOf(40, time.Minute), slotsOf(40, time.Second)
	for i := range 40 {
		now = percents - limit.Micros(time.Second.Microseconds())*limit.Micros(1+40-i)
		m.now = now
		take := byHold(limit.Hold(0x25_25<<20+i+1), store.Hit, long)
		m.take([]store.Take{take})
		takeAll(s, take)
	}
	now = percents - limit.Micros(time.Second.Microseconds())
	m.now = now
	for _, hold := range []limit.Hold{7, 0x25_25<<20 + 20} { // is denied, has one
		take := byHold(hold, store.Hit, short)
		want, got := m.take([]store.Take{take})[0], takeAll(s, take)[0]
		if got.Err != nil || got.Decision != want {
			t.Fatalf("script %+v, limit %+v", got, want)
		}
		b, err := s.Lookup(t.Context(), take.Key)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m.states["key"], b.State); diff != "" || limit.Micros(b.State.Wide[0]) != percents {
			t.Fatalf("the first ends at %#x (- limit, + script):\n%s", b.State.Wide[0], diff)
		}
	}
}

// Two hundred callers ask for twenty slots through four connections at one time:
// twenty get one. Then all of them take and release slots as they can: there are
// never more than twenty in flight, and in the end all slots are back.
func TestNeverMoreInFlight(t *testing.T) {
	const quota, callers, stores, rounds = 20, 200, 4, 15
	server := testserver.Redis(t, testserver.RedisConfig{})
	var all []*Store
	for range stores {
		all = append(all, openURL(t, server.URL()))
	}
	l := slotsOf(quota, time.Hour)
	ask := func(s *Store, hold limit.Hold, op store.Op) store.Result {
		r := takeAll(s, byHold(hold, op, l))[0]
		if r.Err != nil {
			t.Errorf("op %d: %v", op, r.Err)
		}
		return r
	}
	var group sync.WaitGroup
	var holders sync.Map
	var passed, inFlight, denied atomic.Int64
	for i := range callers {
		group.Go(func() {
			if ask(all[i%stores], limit.Hold(i+1), store.Hit).Allowed {
				passed.Add(1)
				holders.Store(i, true)
			}
		})
	}
	group.Wait()
	if passed.Load() != quota {
		t.Fatalf("%d of %d callers got one of %d slots", passed.Load(), callers, quota)
	}
	for i := range callers {
		group.Go(func() {
			s := all[i%stores]
			if _, ok := holders.Load(i); ok {
				ask(s, limit.Hold(i+1), store.Release)
			}
			for round := range rounds {
				hold := limit.Hold(callers*(round+2) + i)
				if !ask(s, hold, store.Hit).Allowed {
					denied.Add(1)
					continue
				}
				if n := inFlight.Add(1); n > quota {
					t.Errorf("%d are in flight", n)
				}
				runtime.Gosched()
				inFlight.Add(-1)
				ask(s, hold, store.Release)
			}
		})
	}
	group.Wait()
	t.Logf("%d of %d were denied", denied.Load(), callers*rounds)
	if r := takeOne(all[0], "key", l, 0); r.Err != nil || r.Remaining != quota || r.ResetAfter != 0 {
		t.Errorf("all have released, and there is %+v", r)
	}
	if n := command(t, all[0], "EXISTS", all[0].Name([]byte("key"))); n != "0" {
		t.Error("an empty bucket is kept")
	}
}

// The slot of a holder that is never heard of again is free at its timeout, by the
// clock of Redis, and not before.
func TestSlotOfALostHolder(t *testing.T) {
	s, server := openRedis(t)
	other := openURL(t, server.URL())
	l := slotsOf(1, 300*time.Millisecond)
	ends := func() limit.Micros {
		t.Helper()
		b, err := other.Lookup(t.Context(), []byte("key"))
		if err != nil || len(b.State.Wide) != 2 {
			t.Fatalf("%+v, %v", b, err)
		}
		return limit.Micros(b.State.Wide[0])
	}
	if r := takeAll(s, byHold(1, store.Hit, l))[0]; r.Err != nil || !r.Allowed {
		t.Fatalf("the first holder: %+v", r)
	}
	first, denied := ends(), 0
	eventually.True(t, "the slot is free", func() bool {
		r := takeAll(other, byHold(2, store.Hit, l))[0]
		if r.Err != nil || !r.Allowed && (r.RetryAfter <= 0 || r.RetryAfter > l.Period) {
			t.Fatalf("the second holder: %+v", r)
		}
		if !r.Allowed {
			denied++
		}
		return r.Allowed
	})
	// A slot ends a timeout after the instant at which it was taken.
	if taken := ends() - limit.Micros(l.PeriodMicros()); taken < first {
		t.Errorf("the second got the slot %d µs before the timeout of the first, after %d denials", first-taken, denied)
	}
}

// An answer is lost after the slot was taken. Whoever asks again by the same hold
// has one slot, not two.
func TestAcquireAgainAfterALostAnswer(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	proxy := testserver.NewProxy(t, server.Addr)
	s, direct := open(t, Options{Addr: proxy.Addr}), openURL(t, server.URL())
	l := slotsOf(2, time.Hour)
	takeOne(s, "other", tenPerHour, 1) // Redis knows the script
	proxy.Set(testserver.Toxics{Down: testserver.Toxic{CutAfter: 1}})
	if r := takeAll(s, byHold(5, store.Hit, l))[0]; r.Err == nil {
		t.Fatalf("the answer was not lost: %+v", r)
	}
	proxy.Set(testserver.Toxics{})
	if r := takeOne(direct, "key", l, 0); r.Err != nil || r.Remaining != 1 {
		t.Fatalf("the call did not run: %+v", r)
	}
	eventually.True(t, "the store works again", func() bool {
		r := takeAll(s, byHold(5, store.Hit, l))[0]
		return r.Err == nil && r.Allowed && r.Remaining == 1
	})
	if r := takeAll(s, byHold(5, store.Release, l))[0]; r.Err != nil || r.Remaining != 2 {
		t.Errorf("after the release: %+v", r)
	}
}

// A script that runs after its deadline takes no slot and counts no denial.
func TestLateHoldsAndDenials(t *testing.T) {
	s, _ := openRedis(t)
	for name, take := range map[string]store.Take{
		"acquire": byHold(1, store.Hit, slotsOf(2, time.Hour)),
		"renew":   byHold(1, store.Renew, slotsOf(2, time.Hour)),
		"charge":  {Key: []byte("key"), Limit: threeStrikes, Hits: 1, Op: store.Charge},
	} {
		keys, args := new(request).encode(s.prefix(hashOf(take.Key)), header{number: 7, deadline: 1}, []store.Take{take})
		if got := command(t, s, "EVAL", takeScript.text(), "1", keys[0], args[0]); !strings.HasPrefix(got, "[29 ") {
			t.Errorf("%s: got %s, want status 1 of call 7", name, got)
		}
		if command(t, s, "EXISTS", keys[0]) != "0" {
			t.Errorf("%s: something was written", name)
		}
	}
}

// What holds and denials leave behind lives until it is as if unused, and a second
// longer; and so does what is left of it.
func TestTimeToLiveOfHoldsAndBans(t *testing.T) {
	s, _ := openRedis(t)
	l := slotsOf(5, time.Minute)
	for i, take := range []store.Take{
		byHold(1, store.Hit, l), byHold(2, store.Hit, l), byHold(2, store.Release, l), byHold(3, store.Renew, l),
		byHold(0, store.Reset, l),
		{Key: []byte("key"), Limit: threeStrikes, Hits: 1, Op: store.Charge},
		{Key: []byte("key"), Limit: threeStrikes, Hits: 2, Op: store.Charge},
		byHold(0, store.Hit, threeStrikes),
	} {
		r := takeAll(s, take)[0]
		b, err := s.Lookup(t.Context(), take.Key)
		if r.Err != nil || err != nil {
			t.Fatal(r.Err, err)
		}
		if b.Found != (r.ResetAfter > 0) {
			t.Errorf("take %d: found %v, unused after %v", i, b.Found, r.ResetAfter)
		}
		if most := r.ResetAfter + time.Second + time.Millisecond; b.Found && (b.TTL > most || b.TTL < most-patient) {
			t.Errorf("take %d: lives for %v, is unused after %v", i, b.TTL, r.ResetAfter)
		}
		if now := time.Now(); b.Found && (b.Now.Time().Before(now.Add(-patient)) || b.Now.Time().After(now.Add(patient))) {
			t.Errorf("take %d: read at %v", i, b.Now.Time())
		}
	}
}

// Values that have no known form are no slots and no ban.
func TestForeignSlotsAndBans(t *testing.T) {
	s, _ := openRedis(t)
	l := slotsOf(3, time.Hour)
	for _, value := range []string{
		"9", "9 1 1", "9" + strings.Repeat("\x00", 13), "9" + strings.Repeat("\xff", 15), strings.Repeat("9", 14),
		"10", "10 1", "10 1 1", "10 1 1 1 1", "10 a b c", "10 -1 -1 -1", "10 1 1 x", "100 1 1 1", "4", "",
	} {
		command(t, s, "SET", s.Name([]byte("key")), value)
		if b, err := s.Lookup(t.Context(), []byte("key")); err != nil || b.State.Kind != 0 {
			t.Errorf("%q is read as %+v, %v", value, b.State, err)
		}
		for _, hits := range []int64{0, 1} {
			if r := takeOne(s, "key", threeStrikes, hits); r.Err != nil || !r.Allowed || r.Remaining != 3 {
				t.Errorf("ban, %d hits on %q: %+v", hits, value, r)
			}
		}
		for _, want := range []int64{2, 1} {
			if r := takeAll(s, byHold(limit.Hold(want), store.Hit, l))[0]; r.Err != nil || !r.Allowed || r.Remaining != want {
				t.Errorf("hold %d on %q: %+v", want, value, r)
			}
		}
	}
	// Of the right length, but not in order and far ahead: no call fails, nobody is
	// let in who has to wait for a negative time.
	for _, value := range []string{strings.Repeat("\xff", 14*4), strings.Repeat("\x01", 14*4), strings.Repeat("\x08\x00\x01\x02\x03\x04\x05", 6)} {
		command(t, s, "SET", s.Name([]byte("key")), "9"+value)
		for _, op := range []store.Op{store.Hit, store.Release, store.Renew} {
			if r := takeAll(s, byHold(9, op, l))[0]; r.Err != nil || r.Allowed == (r.RetryAfter > 0) {
				t.Errorf("op %d on %q: %+v", op, value, r)
			}
		}
	}
}

// A ban survives a server that forgets, and so do the denials that lead to one.
// Slots do not, but come back as their holders renew them.
func TestARestartLiftsNoBan(t *testing.T) {
	s, server := openRedis(t)
	chargeOne(s, "counted", threeStrikes, 2)
	chargeOne(s, "banned", threeStrikes, 3)
	l := slotsOf(2, time.Hour)
	takeAll(s, byHold(1, store.Hit, l), byHold(2, store.Hit, l))
	outlives(t, s, server)
	if r := takeOne(s, "counted", threeStrikes, 1); r.Err != nil || !r.Allowed || r.Remaining != 1 {
		t.Errorf("two denials, after the restart: %+v", r)
	}
	if r := takeOne(s, "banned", threeStrikes, 1); r.Err != nil || r.Allowed || r.RetryAfter > time.Hour || r.RetryAfter < time.Hour-patient {
		t.Errorf("a ban, after the restart: %+v", r)
	}
	if n := s.Stats().Shards[0].Reseeded; n != 2 {
		t.Errorf("%d buckets were brought back, want 2", n)
	}
	for i, want := range []int64{1, 0} {
		if r := takeAll(s, byHold(limit.Hold(1+i), store.Renew, l))[0]; r.Err != nil || r.Remaining != want {
			t.Errorf("hold %d renews after the restart: %+v", 1+i, r)
		}
	}
	if r := takeAll(s, byHold(3, store.Hit, l))[0]; r.Err != nil || r.Allowed {
		t.Errorf("a third after the restart: %+v", r)
	}
}

// A group that only peeks at a ban passes as often as it comes, also while the ban
// lasts: its other take is charged each time.
func TestGroupsThatPeekAtABan(t *testing.T) {
	s, _ := openRedis(t)
	m := newModel(s, 1_763_666_315_123_456)
	setClock(t, s, func() limit.Micros { return m.now })
	takes := []store.Take{{Key: []byte("banned"), Limit: threeStrikes, Hits: 3, Op: store.Charge}}
	for group := range uint32(3) {
		takes = append(takes,
			store.Take{Key: []byte("counted"), Limit: tenPerHour, Hits: 5, Group: group + 1},
			store.Take{Key: []byte("banned"), Limit: threeStrikes, Group: group + 1})
	}
	if _, grouped := countJoined(takes); grouped == 0 {
		t.Fatal("the groups are not sent as one that comes several times")
	}
	want, got := m.take(takes), takeAll(s, takes...)
	for i := range takes {
		if got[i].Err != nil || got[i].Decision != want[i] {
			t.Errorf("take %d: %+v, want %+v", i, got[i], want[i])
		}
	}
	found, err := s.Lookup(t.Context(), []byte("counted"))
	if err != nil || found.State.B != 10 {
		t.Errorf("%+v, %v counted, want 10", found.State, err)
	}
}

// Takes of slots are never joined, not even of one hold: alone and in groups.
func TestHoldsAreNotJoined(t *testing.T) {
	l := slotsOf(100, time.Hour)
	takes := make([]store.Take, 64)
	for i := range takes {
		takes[i] = byHold(7, store.Hit, l)
	}
	alone, grouped := countJoined(takes)
	for i := range takes {
		takes[i].Group = uint32(1 + i/2)
	}
	if a, g := countJoined(takes); alone+grouped+a+g != 0 {
		t.Errorf("%d takes by holds became part of others", alone+grouped+a+g)
	}
}

// FuzzParseState holds that whatever a bucket holds is read without a panic, and
// that what is read as slots has a hold for each end.
func FuzzParseState(f *testing.F) {
	for _, value := range []string{"", "1 1 2 3", "2 1 2", "3 1 1 2 3", "4abcdefg", "8 -1 2", "9abcdefghijklmn", "10 1 2 0", "10 0 0 3", "2251799813685255", "11 0 0 0", "11 0 0 00", "11 0 0 0 ", "11 9 8 7 8 1 2", "11 *", "11 * 9 8 7 6 5 5:8 1 2"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if s := parseState(value, 1_780_315_230_000_000); s.Kind == 9 && (len(s.Wide) == 0 || len(s.Wide)%2 != 0) || s.Kind > limit.KindTallies {
			t.Errorf("%q: %+v", value, s)
		}
	})
}
