package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/storetest"
)

// Under the race detector it is one program, as in TestConformance.
func TestTotalsConformance(t *testing.T) {
	programs := testserver.RedisPrograms
	t.Run(programs[0], func(t *testing.T) { testTotals(t, programs[0], true) })
	for _, program := range programs[1:] {
		t.Run(program, func(t *testing.T) {
			racetest.Serially(t)
			testTotals(t, program, true)
		})
	}
	t.Run("text", func(t *testing.T) {
		racetest.Serially(t)
		testTotals(t, programs[0], false)
	})
}

func testTotals(t *testing.T, program string, packs bool) {
	storetest.RunTotals(t, func(t *testing.T) storetest.Harness {
		s := openURL(t, testserver.Redis(t, testserver.RedisConfig{Program: program}).URL())
		s.packs.Store(packs)
		if packs {
			return inWorld(t, s)
		}
		return clocked(t, s)
	})
}

// importAll imports totals; an error fails the test.
func importAll(t *testing.T, s *Store, totals ...store.Total) []store.Result {
	t.Helper()
	results := make([]store.Result, len(totals))
	s.Import(context.Background(), totals, results)
	for i := range results {
		if results[i].Err != nil {
			t.Fatalf("total %d: %v", i, results[i].Err)
		}
	}
	return results
}

// A note lives as long as it says, and a second, and has the name of its bucket and its column.
func TestNotesExpire(t *testing.T) {
	s, _ := openRedis(t)
	l := limit.Must(limit.PerHour(100))
	column := store.Column{1, 2, 3}
	importAll(t, s, store.Total{Key: []byte("key"), Limit: l, Column: column, Now: store.Counts{Hits: 5}, Keep: 90 * time.Second})
	name := s.Name([]byte("key")) + heardSuffix + string(column[:])
	left, err := strconv.Atoi(command(t, s, "PTTL", name))
	if err != nil || left <= 0 || left > 91_000 {
		t.Errorf("the note lives for %d ms, %v", left, err)
	}
	// One that is something else counts as none.
	command(t, s, "SET", name, "rubbish")
	if r := importAll(t, s, store.Total{Key: []byte("key"), Limit: l, Column: column, Now: store.Counts{Hits: 7}, Keep: time.Minute}); r[0].Remaining != 88 {
		t.Errorf("%+v", r[0])
	}
}

// A bucket of another program is refused, and what is told beside it is charged, once; a note of
// another program is written over.
//
//promise:shared-foreign-keys
func TestTotalsBesideForeignKeys(t *testing.T) {
	for _, program := range testserver.RedisPrograms {
		t.Run(program, func(t *testing.T) { testTotalsBesideForeignKeys(t, program) })
	}
}

func testTotalsBesideForeignKeys(t *testing.T, program string) {
	s := openURL(t, testserver.Redis(t, testserver.RedisConfig{Program: program}).URL())
	l := limit.Must(limit.PerHour(100))
	totals := make([]store.Total, 6)
	for i := range totals {
		totals[i] = store.Total{Key: fmt.Appendf(nil, "key %d", i), Limit: l, Column: store.Column{1}, Now: store.Counts{Hits: 30}, Keep: time.Minute}
	}
	const foreign, noted = 3, 5
	command(t, s, "RPUSH", s.Name(totals[foreign].Key), "another program")
	command(t, s, "RPUSH", s.Name(totals[noted].Key)+heardSuffix+string(totals[noted].Column[:]), "another program")
	for range 3 {
		results := make([]store.Result, len(totals))
		s.Import(t.Context(), totals, results)
		for i, r := range results {
			switch {
			case i == foreign:
				if store.ReasonOf(r.Err) != store.Misconfigured {
					t.Errorf("the bucket of another program: %+v", r)
				}
			case r.Err != nil || r.Remaining != 70:
				t.Errorf("key %d: %+v", i, r)
			}
		}
	}
	command(t, s, "DEL", s.Name(totals[foreign].Key))
	if r := importAll(t, s, totals...); r[foreign].Remaining != 70 {
		t.Errorf("once its bucket is free: %+v", r[foreign])
	}
}

// A total of more hits than any quota has counts as package limit counts them: what is given back of them
// makes room.
func TestTotalsOfMoreHitsThanAQuota(t *testing.T) {
	s, _ := openRedis(t)
	const now = 1_780_315_230_000_000
	setClock(t, s, func() limit.Micros { return now })
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: limit.MaxQuota, Period: time.Hour})
	total := store.Total{Key: []byte("key"), Limit: l, Column: store.Column{1}, Now: store.Counts{Hits: limit.MaxQuota + 5}, Keep: time.Hour}
	var state limit.State
	var want limit.Decision
	for _, total.Now.Back = range []int64{0, 5, 12} {
		reset, hits, heard := total.News(total.Heard)
		if reset {
			t.Fatal("a reset that nobody told of")
		}
		take := total.Take(hits)
		state, want = take.Decide(state, now)
		if got := importAll(t, s, total)[0]; got.Remaining != want.Remaining {
			t.Errorf("with %d given back %d are left, want %d", total.Now.Back, got.Remaining, want.Remaining)
		}
		total.Heard = heard
	}
	if want.Remaining == 0 {
		t.Error("nothing that was given back makes room")
	}
}

// A total is four commands of Redis beside the clock, and all of a batch need few calls.
func TestTotalCommands(t *testing.T) {
	s, _ := openRedis(t)
	l := limit.Must(limit.PerHour(1_000_000))
	var totals []store.Total
	for i := range 64 {
		totals = append(totals, store.Total{Key: fmt.Appendf(nil, "key %d", i), Limit: l, Column: store.Column{1}, Now: store.Counts{Hits: 5}, Keep: time.Minute})
	}
	importAll(t, s, totals...)
	command(t, s, "CONFIG", "RESETSTAT")
	for i := range totals {
		totals[i].Now.Hits++
	}
	importAll(t, s, totals...)
	calls := 64 * totalCost / maxKeys
	for name, want := range map[string]int{"evalsha": calls, "time": calls, "strlen": 64, "get": 2 * 64, "set": 2 * 64, "del": 0} {
		if n := stat(t, s, "commandstats", "cmdstat_"+name+`:calls=(\d+)`); n != want {
			t.Errorf("%d of %s, want %d", n, name, want)
		}
	}
}

// A cluster takes in totals as a single Redis does.
func TestTotalsInACluster(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	s := open(t, clusterOptions(servers))
	l := limit.Must(limit.PerHour(100))
	var totals []store.Total
	for _, key := range clusterKeys() {
		totals = append(totals, store.Total{Key: []byte(key), Limit: l, Column: store.Column{1}, Now: store.Counts{Hits: 30}, Keep: time.Minute})
	}
	for range 2 {
		for i, r := range importAll(t, s, totals...) {
			if r.Remaining != 70 {
				t.Fatalf("%s: %+v", totals[i].Key, r)
			}
		}
	}
}

// A store that is away says so of each total.
func TestTotalsOfAStoreThatIsAway(t *testing.T) {
	s, server := openRedis(t)
	server.Kill()
	l := limit.Must(limit.PerHour(100))
	results := make([]store.Result, 20)
	totals := make([]store.Total, len(results))
	for i := range totals {
		totals[i] = store.Total{Key: fmt.Appendf(nil, "key %d", i), Limit: l, Column: store.Column{1}, Now: store.Counts{Hits: 5}, Keep: time.Minute}
	}
	s.Import(t.Context(), totals, results)
	for i := range results {
		if results[i].Err == nil {
			t.Errorf("total %d: %+v", i, results[i])
		}
	}
}
