package redisstore

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// everyLimit has one limit of each algorithm that counts hits, of quota 10 a minute.
func everyLimit() []*limit.Limit {
	var all []*limit.Limit
	for a := limit.SlidingWindow; a <= limit.GCRA; a++ {
		all = append(all, limit.Must(limit.Spec{Algorithm: a, Quota: 10, Period: time.Minute}))
	}
	berlin, err := limit.NewCalendar(limit.CalendarDay, "Europe/Berlin")
	if err != nil {
		panic(err)
	}
	return append(all,
		limit.Must(limit.Spec{Algorithm: limit.SubWindows, Quota: 10, Period: time.Minute, SubWindows: 60, Strict: true}),
		limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Calendar: berlin}),
		limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 10, Period: 15 * time.Minute}), // which is no integer (packed.go)
		limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 3, Period: time.Second, CountDenied: true}))
}

// stat reads a number from INFO.
func stat(t *testing.T, s *Store, section, pattern string) int {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(command(t, s, "INFO", section))
	if match == nil {
		return 0
	}
	n, err := strconv.Atoi(match[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// writes is the number of changes that Redis has made.
func writes(t *testing.T, s *Store) int {
	return stat(t, s, "persistence", `rdb_changes_since_last_save:(\d+)`)
}

// After any work every key has a time to live, not longer than its state
// matters, and one second.
func TestEveryKeyExpires(t *testing.T) {
	s, _ := openRedis(t)
	limits := everyLimit()
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		takes := make([]store.Take, 1+random.IntN(5))
		for i := range takes {
			takes[i] = store.Take{
				Key:    fmt.Appendf(nil, "key %d", random.IntN(60)),
				Limit:  limits[random.IntN(len(limits))],
				Hits:   random.Int64N(12),
				Group:  uint32(random.IntN(2)),
				Op:     store.Op(random.IntN(8) / 6),
				Shadow: random.IntN(4) == 0,
			}
		}
		for _, r := range takeAll(s, takes...) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	found := 0
	for i := range 60 {
		b, err := s.Lookup(t.Context(), fmt.Appendf(nil, "key %d", i))
		if err != nil {
			t.Fatal(err)
		}
		if !b.Found {
			continue
		}
		found++
		if b.TTL <= 0 {
			t.Errorf("%q has no time to live: %s", b.Name, b.Value)
		}
		if b.State.Kind == 0 {
			t.Errorf("%q holds %q, which is no state", b.Name, b.Value)
		}
	}
	if size := command(t, s, "DBSIZE"); size != strconv.Itoa(found) || found == 0 {
		t.Errorf("Redis holds %s keys, known are %d", size, found)
	}
}

// The time to live is the time in which the bucket becomes as if unused, and
// one second.
func TestTimeToLive(t *testing.T) {
	s, _ := openRedis(t)
	for i, l := range everyLimit() {
		key := fmt.Sprintf("key %d", i)
		r := takeOne(s, key, l, 1)
		b, err := s.Lookup(t.Context(), []byte(key))
		if r.Err != nil || err != nil {
			t.Fatal(r.Err, err)
		}
		if most := r.ResetAfter + time.Millisecond + time.Second; b.TTL > most || b.TTL < most-patient {
			t.Errorf("%v: lives for %v, is unused after %v", l.Algorithm, b.TTL, r.ResetAfter)
		}
	}
}

func TestPeeksDenialsAndDryRunsWriteNothing(t *testing.T) {
	s, _ := openRedis(t)
	for i, l := range everyLimit() {
		if l.CountDenied {
			continue
		}
		key := fmt.Sprintf("key %d", i)
		if r := takeOne(s, key, l, l.Capacity()); !r.Allowed {
			t.Fatalf("%v: %+v", l.Algorithm, r)
		}
		before := writes(t, s)
		value := command(t, s, "DUMP", s.Name([]byte(key)))
		takeOne(s, key, l, 0)
		takeOne(s, "unused "+key, l, 0)
		if r := takeOne(s, key, l, l.Capacity()); r.Allowed || r.Err != nil {
			t.Errorf("%v: %+v", l.Algorithm, r)
		}
		takeAll(s,
			store.Take{Key: []byte("other"), Limit: l, Hits: 1, Group: 1},
			store.Take{Key: []byte(key), Limit: l, Hits: l.Capacity(), Group: 1})
		for op := store.Hit; op <= store.Release; op++ {
			all := []store.Take{
				{Key: []byte(key), Limit: l, Hits: 1, Op: op}, {Key: []byte("other"), Limit: l, Hits: 1, Op: op},
				{Key: []byte("other"), Limit: l, Hits: 1, Op: op}, {Key: []byte("third"), Limit: l, Hits: 1, Op: op, Group: 1},
				{Key: []byte("fourth"), Limit: l, Hits: 1, Op: op, Group: 1}, {Key: []byte("fifth"), Limit: l, Hits: 1, Op: op},
			}
			for i, r := range takeAll(s, dry(all)...) {
				if r.Err != nil {
					t.Errorf("%v: dry run %d: %v", l.Algorithm, i, r.Err)
				}
			}
		}
		if after := writes(t, s); after != before {
			t.Errorf("%v: %d writes", l.Algorithm, after-before)
		}
		if command(t, s, "DUMP", s.Name([]byte(key))) != value {
			t.Errorf("%v: the value has changed", l.Algorithm)
		}
	}
}

// A batch is one call of the script, and the takes on one bucket one read and
// one write.
//
//promise:several-limits
func TestOneRoundTrip(t *testing.T) {
	s, _ := openRedis(t)
	var batches [][]store.Take
	buckets := 0
	for i, l := range everyLimit() {
		take := store.Take{Key: fmt.Appendf(nil, "key %d", i), Limit: l, Hits: 1, Group: uint32(i % 2)}
		other := store.Take{Key: fmt.Appendf(nil, "other %d", i), Limit: tenPerHour, Hits: 1}
		if l.Algorithm != limit.SlidingLog { // which is not read by GET
			buckets++
		}
		buckets++
		batches = append(batches, []store.Take{take, take, other})
		if costOf(l) > 5 {
			batches[i] = []store.Take{take, other}
		}
	}
	for _, batch := range batches {
		takeAll(s, batch...)
	}
	command(t, s, "CONFIG", "RESETSTAT")
	const calls = 20
	for range calls {
		for _, batch := range batches {
			takeAll(s, batch...)
		}
	}
	stats := command(t, s, "INFO", "commandstats")
	if !strings.Contains(stats, fmt.Sprintf("cmdstat_evalsha:calls=%d,", calls*len(batches))) {
		t.Errorf("want %d calls of evalsha:\n%s", calls*len(batches), stats)
	}
	gets := stat(t, s, "commandstats", `cmdstat_get:calls=(\d+)`)
	if want := calls * buckets; gets != want {
		t.Errorf("%d reads, want %d", gets, want)
	}
}

// A large batch is several calls; a large group is one.
func TestLargeBatches(t *testing.T) {
	s, _ := openRedis(t)
	l := limit.Must(limit.PerHour(1))
	run := func(takes []store.Take) int {
		takeAll(s, takes[:1]...)
		before := stat(t, s, "commandstats", `cmdstat_evalsha:calls=(\d+)`)
		for i, r := range takeAll(s, takes...) {
			if r.Err != nil {
				t.Fatalf("take %d: %v", i, r.Err)
			}
		}
		return stat(t, s, "commandstats", `cmdstat_evalsha:calls=(\d+)`) - before
	}
	takes := make([]store.Take, 1000)
	for i := range takes {
		takes[i] = store.Take{Key: fmt.Appendf(nil, "key %d", i), Limit: l}
	}
	if calls := run(takes); calls != (1000+maxKeys-1)/maxKeys {
		t.Errorf("1000 takes are %d calls", calls)
	}
	for i := range takes {
		takes[i].Group = 1
	}
	if calls := run(takes); calls != 1 {
		t.Errorf("a group of 1000 is %d calls", calls)
	}
}

// TestBatchesLeaveTogether: the calls of a batch that is not huge are one flight, so that none
// waits for the answer to another.
func TestBatchesLeaveTogether(t *testing.T) {
	s, _ := openRedis(t)
	takes := make([]store.Take, 4*maxKeys)
	for i := range takes {
		takes[i] = store.Take{Key: fmt.Appendf(nil, "key %d", i), Limit: limit.Must(limit.PerHour(1)), Hits: 1}
	}
	for i, r := range takeAll(s, takes...) {
		if r.Err != nil || !r.Allowed {
			t.Fatalf("take %d: %+v", i, r)
		}
	}
	if m := s.Stats().Shards[0].Merged; m.Flights != 1 || m.Questions != uint64(len(takes)) {
		t.Errorf("%d flights of %d takes, want one of %d", m.Flights, m.Questions, len(takes))
	}
}

func TestCallLength(t *testing.T) {
	// groups is run lengths: {group, length}.
	for _, c := range []struct {
		groups [][2]int
		want   int
	}{
		{[][2]int{{0, 5}}, 5},
		{[][2]int{{0, maxKeys}}, maxKeys},
		{[][2]int{{0, maxKeys + 1}}, maxKeys},
		{[][2]int{{1, 500}}, 500},
		{[][2]int{{1, 500}, {2, 1}}, 500},
		{[][2]int{{1, maxKeys}, {2, 3}}, maxKeys},
		{[][2]int{{0, maxKeys - 4}, {1, 4}, {0, 9}}, maxKeys},
		{[][2]int{{0, maxKeys - 4}, {1, 5}, {0, 9}}, maxKeys - 4},
		{[][2]int{{2, maxKeys - 4}, {1, 500}}, maxKeys - 4},
	} {
		var takes []store.Take
		for _, run := range c.groups {
			for range run[1] {
				takes = append(takes, store.Take{Group: uint32(run[0]), Limit: tenPerHour})
			}
		}
		if got := callLength(takes); got != c.want {
			t.Errorf("%v: %d, want %d", c.groups, got, c.want)
		}
	}
	// What costs more than a plain take: so many last some 60 to 80 microseconds.
	for _, c := range []struct {
		algorithm   limit.Algorithm
		parts, want int
	}{{limit.LeakyQueue, 0, 8}, {limit.SlidingLog, 0, 5}, {limit.SubWindows, 2, 5}, {limit.SubWindows, 10, 4}, {limit.SubWindows, 60, 1}} {
		l := limit.Must(limit.Spec{Algorithm: c.algorithm, Quota: 1, Period: time.Hour, SubWindows: c.parts})
		if got := callLength(slices.Repeat([]store.Take{{Limit: l}}, maxKeys)); got != c.want {
			t.Errorf("%d takes of %v with %d parts in a call, want %d", got, c.algorithm, c.parts, c.want)
		}
	}
}

// Requirement C6: a sliding window counter takes at most 180 bytes.
func TestMemoryPerKey(t *testing.T) {
	s, _ := openRedis(t)
	for i, l := range everyLimit() {
		key := fmt.Sprintf("key %d", i)
		takeOne(s, key, l, 1)
		bytes := command(t, s, "MEMORY", "USAGE", s.Name([]byte(key)))
		t.Logf("%v %d: %s bytes", l.Algorithm, l.SubWindows, bytes)
		if n, err := strconv.Atoi(bytes); err != nil || (l.SubWindows == 0 && n > 180) {
			t.Errorf("%v: %s bytes, want at most 180", l.Algorithm, bytes)
		}
	}
}

// TestMemoryOfADay: docs/accuracy.md says what Redis keeps of a user who makes 500 requests in a
// day, evenly, beside the figures that Figma has published.
func TestMemoryOfADay(t *testing.T) {
	const requests = 500
	spec := limit.Spec{Quota: requests, Period: 24 * time.Hour}
	for _, c := range []struct {
		algorithm limit.Algorithm
		parts     int
		most      int // bytes; other versions of Redis need less than 7.0
	}{{limit.SlidingLog, 0, 5_500}, {limit.SubWindows, 60, 260}, {limit.SlidingWindow, 0, 90}} {
		s, _ := openRedis(t)
		now := limit.MicrosOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		s.clock = func() limit.Micros { return now }
		spec.Algorithm, spec.SubWindows, spec.Strict = c.algorithm, c.parts, c.parts > 0
		l := limit.Must(spec)
		for range requests {
			if r := takeOne(s, "user", l, 1); r.Err != nil {
				t.Fatal(r.Err)
			}
			now += limit.Micros(spec.Period/time.Microsecond) / requests
		}
		text := command(t, s, "MEMORY", "USAGE", s.Name([]byte("user")))
		t.Logf("%v: %s bytes", c.algorithm, text)
		if n, err := strconv.Atoi(text); err != nil || n > c.most {
			t.Errorf("%v: %s bytes, want at most %d", c.algorithm, text, c.most)
		}
	}
}

// The same with all that Redis keeps for a key: its place in two tables, its
// time to live.
func TestMemoryInAll(t *testing.T) {
	racetest.Serially(t)
	s, _ := openRedis(t)
	const keys, most = 60_000, 180
	before := stat(t, s, "memory", `used_memory:(\d+)`)
	takes := make([]store.Take, maxKeys)
	l := limit.Must(limit.PerDay(1_000_000))
	for i := 0; i < keys; i += len(takes) {
		for j := range takes {
			takes[j] = store.Take{Key: fmt.Appendf(nil, "key %d", i+j), Limit: l, Hits: int64(1 + (i+j)%1000)}
		}
		takeAll(s, takes...)
	}
	each := (stat(t, s, "memory", `used_memory:(\d+)`) - before) / keys
	t.Logf("%d bytes for each sliding window counter", each)
	if each > most {
		t.Errorf("%d bytes for each key, want at most %d", each, most)
	}
}

// A log of ten thousand hits is probed and appended to, not read or written
// whole.
func TestLongLogIsNotMoved(t *testing.T) {
	s, _ := openRedis(t)
	l := limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: limit.MaxLogQuota, Period: time.Hour})
	takeOne(s, "key", l, limit.MaxLogQuota-1)
	command(t, s, "CONFIG", "RESETSTAT")
	for _, allowed := range []bool{true, false} {
		if r := takeOne(s, "key", l, 1); r.Err != nil || r.Allowed != allowed {
			t.Fatalf("got %+v", r)
		}
	}
	stats := command(t, s, "INFO", "commandstats")
	for _, banned := range []string{"cmdstat_set:", "cmdstat_get:"} {
		if strings.Contains(stats, banned) {
			t.Errorf("%s was used:\n%s", banned, stats)
		}
	}
	if n := stat(t, s, "commandstats", `cmdstat_getrange:calls=(\d+)`); n > 50 {
		t.Errorf("%d probes for two calls", n)
	}
}

// Redis says what time it is, once in each call: nodes whose clocks differ decide by one clock.
func TestDecidesByRedissClock(t *testing.T) {
	s, _ := openRedis(t)
	const calls = 20
	limits := everyLimit()
	takeOne(s, "key", limits[0], 1) // the script is there from now on
	command(t, s, "CONFIG", "RESETSTAT")
	for range calls {
		for i, l := range limits {
			takeOne(s, fmt.Sprintf("key %d", i), l, 1)
		}
	}
	asked := stat(t, s, "commandstats", `cmdstat_time:calls=(\d+)`)
	if want := stat(t, s, "commandstats", `cmdstat_evalsha:calls=(\d+)`); want < calls*len(limits) || asked != want {
		t.Errorf("%d calls of the script asked for the time %d times", want, asked)
	}
}

// When the store is wrong about Redis's clock, it learns from the answer and
// asks once more.
func TestWrongIdeaOfTheClock(t *testing.T) {
	s, _ := openRedis(t)
	limits := everyLimit()
	for _, wrong := range []time.Duration{-time.Hour, time.Hour, -50 * 365 * 24 * time.Hour, 40 * 24 * time.Hour} {
		for i, l := range limits {
			se, fault := s.only.Session()
			if fault != nil {
				t.Fatal(fault)
			}
			se.SetClock(se.RedisTime(time.Now().Add(wrong)))
			if r := takeOne(s, fmt.Sprintf("key %d %v", i, wrong), l, 1); r.Err != nil || !r.Allowed {
				t.Fatalf("%v, off by %v: %+v", l.Algorithm, wrong, r)
			}
		}
	}
}

func TestLookup(t *testing.T) {
	s, _ := openRedis(t)
	key := []byte("some key")
	b, err := s.Lookup(t.Context(), key)
	if err != nil || b.Found || b.State.Kind != 0 {
		t.Errorf("unused: %+v, %v", b, err)
	}
	if !strings.HasPrefix(b.Name, conn.DefaultPrefix) || len(b.Name) != len(conn.DefaultPrefix)+hashBytes {
		t.Errorf("name %q", b.Name)
	}
	takeOne(s, string(key), tenPerHour, 3)
	b, err = s.Lookup(t.Context(), key)
	if err != nil || !b.Found || b.State.Kind != 1 || b.State.B != 3 || b.TTL <= 0 {
		t.Errorf("in use: %+v, %v", b, err)
	}
	takeAll(s, store.Take{Key: key, Limit: tenPerHour, Op: store.Reset})
	if b, err = s.Lookup(t.Context(), key); err != nil || b.Found {
		t.Errorf("after a reset: %+v, %v", b, err)
	}
}

// What another program wrote under our names is no state: text that is none is
// overwritten, another type is an error.
func TestForeignValues(t *testing.T) {
	s, _ := openRedis(t)
	for _, value := range []string{"", "x", "1", "1 2", "1 -1 -1 -1", "1 a b c", "9 1 1", "4", "4short", "3 1 1", "3 1 1 ", "5 99999999999999999999999999 1", "2 1e9 5"} {
		for i, l := range everyLimit() {
			key := fmt.Sprintf("key %d", i)
			command(t, s, "SET", s.Name([]byte(key)), value)
			r := takeOne(s, key, l, 1)
			if r.Err != nil {
				t.Errorf("%v on %q: %v", l.Algorithm, value, r.Err)
			}
		}
	}
	command(t, s, "DEL", s.Name([]byte("list")))
	command(t, s, "LPUSH", s.Name([]byte("list")), "x")
	if r := takeOne(s, "list", tenPerHour, 1); store.ReasonOf(r.Err) != store.Misconfigured {
		t.Errorf("on a list: %+v", r)
	}
}
