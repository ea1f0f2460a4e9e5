// Package storetest checks that a store keeps the contract of package store: it
// replays the recorded vectors, drives the store beside a plain model with
// random traces, and tries what is hard to get right (groups, hostile keys,
// crowds on one key). Every store runs it in a test of its own:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Harness {
//			var now atomic.Int64
//			s := open(t, func() limit.Micros { return limit.Micros(now.Load()) })
//			return storetest.Harness{Store: s, SetNow: func(m limit.Micros) { now.Store(int64(m)) }}
//		})
//	}
//
// A store that hands out leases, lets nodes find each other, keeps values or takes in totals
// runs RunLeases, RunRoster, RunSwaps and RunTotals too.
//
// The flag -rapid.checks sets the number of random traces, -short divides it by
// five; a trace is some twenty calls of the store.
package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Harness is a store under test whose clock the suite sets.
type Harness struct {
	// Store is empty, and roomy enough for ten thousand buckets.
	Store store.Store
	// SetNow makes now the instant at which all later takes are decided. It may
	// step back. It is not called while a take is under way.
	SetNow func(now limit.Micros)
	// Supports returns an error for a limit that the store cannot decide by; the
	// suite leaves that out, and tests that are about its algorithm alone. Nil
	// means that the store has all algorithms.
	Supports func(l *limit.Limit) error
	// State returns what is stored for a key, the zero State if nothing is. Nil
	// means that the suite cannot look: it then compares decisions alone.
	State func(key string) limit.State
	// Forgets says that a bucket is gone as soon as it is unused by the limit that was
	// asked last, so that one which looks back longer does not find it: the suite leaves
	// out what of the vectors is about that. Nor does it know a window from one so many
	// later that both have one number, so that traces with far steps back begin anew.
	Forgets bool
}

// has reports whether the store decides by l.
func (h Harness) has(l *limit.Limit) bool { return h.Supports == nil || h.Supports(l) == nil }

// need returns the limit that spec is, and skips the test if the store has no such.
func (h Harness) need(t *testing.T, spec limit.Spec) *limit.Limit {
	t.Helper()
	l := limit.Must(spec)
	if !h.has(l) {
		t.Skipf("the store has no %v", l.Algorithm)
	}
	return l
}

// specs returns those of all that the store decides by.
func (h Harness) specs(all []limit.Spec) []limit.Spec {
	return slices.DeleteFunc(slices.Clone(all), func(s limit.Spec) bool { return !h.has(limit.Must(s)) })
}

// Run checks the store that open returns. It calls open once for each of its
// subtests; open registers with t what has to be closed.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	runAll(t, open, []test{
		{"vectors", testVectors},
		{"model", testModel},
		{"peek writes nothing", testPeek},
		{"denial writes nothing", testDenial},
		{"batch in order", testBatchOrder},
		{"batch sizes", testBatchSizes},
		{"results are overwritten", testResultsOverwritten},
		{"group passes", testGroupPasses},
		{"group denied", testGroupDenied},
		{"group counts no denial", testGroupCountDenied},
		{"group shadow", testGroupShadow},
		{"group duplicates", testGroupDuplicates},
		{"group refund and reset", testGroupRefund},
		{"groups are apart", testGroupsApart},
		{"hostile keys", testHostileKeys},
		{"algorithm changes", testAlgorithmChanges},
		{"forgets what is unused", testLifetime},
		{"keeps what a denial found", testDenialKeeps},
		{"keeps a second longer", testMargin},
		{"clock steps back", testStepBack},
		{"early denials after a step back", testEarlyDenials},
		{"charge", testCharge},
		{"charge in a group", testChargeInGroup},
		{"charges and the model", testModelCharges},
		{"slots", testSlots},
		{"slots are kept", testSlotsKept},
		{"slots come back", testSlotsComeBack},
		{"slots of nobody", testSlotsOfNobody},
		{"many slots", testManySlots},
		{"slots in a group", testSlotsInGroup},
		{"slots in a batch", testSlotsInBatch},
		{"renewals and releases elsewhere", testHoldsElsewhere},
		{"ban", testBan},
		{"ban and its denials", testBanDenials},
		{"ban in a group", testBanInGroup},
		{"holds, bans and the model", testModelHolds},
		{"dry run", testDryRun},
		{"dry run of many limits on one key", testDryRunTallies},
		{"dry runs in a batch", testDryRunBatch},
		{"dry runs in a group", testDryRunGroup},
		{"large dry run", testDryRunLarge},
		{"crowd of dry runs", testCrowdOfDryRuns},
		{"crowd of holds", testCrowdOfHolds},
		{"crowd on one key", testCrowd},
		{"crowd of groups", testCrowdOfGroups},
	})
}

// test is a subtest of a suite.
type test struct {
	name string
	run  func(t *testing.T, h Harness)
}

// runAll runs tests on a store of its own each.
func runAll(t *testing.T, open func(t *testing.T) Harness, tests []test) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := open(t)
			h.SetNow(noon)
			test.run(t, h)
		})
	}
}

// noon is when most tests take place: 1 June 2026, 12:00 UTC.
const noon = limit.Micros(1_780_315_200_000_000)

// micros is d in the unit of the clock.
func micros(d time.Duration) limit.Micros { return limit.Micros(d / time.Microsecond) }

// specs has a limit of ten for each algorithm that counts hits. (A leaky bucket admits one at a
// time; a queue of ten has the eleventh go on at once.)
var specs = []limit.Spec{
	{Algorithm: limit.SlidingWindow, Quota: 10, Period: time.Minute},
	{Algorithm: limit.FixedWindow, Quota: 10, Period: time.Minute},
	{Algorithm: limit.SubWindows, Quota: 10, Period: time.Minute, SubWindows: 6},
	{Algorithm: limit.SubWindows, Quota: 10, Period: time.Minute, SubWindows: 6, Strict: true},
	{Algorithm: limit.SlidingLog, Quota: 10, Period: time.Minute},
	{Algorithm: limit.TokenBucket, Quota: 7, Period: time.Minute, Burst: 10},
	{Algorithm: limit.LeakyBucket, Quota: 10, Period: time.Minute},
	{Algorithm: limit.LeakyQueue, Quota: 10, Period: time.Minute, MaxQueue: 9},
	{Algorithm: limit.GCRA, Quota: 10, Period: time.Minute},
}

func eachSpec(t *testing.T, h Harness, f func(t *testing.T, l *limit.Limit, key string)) {
	t.Helper()
	eachOf(t, h.specs(specs), f)
}

func eachOf(t *testing.T, specs []limit.Spec, f func(t *testing.T, l *limit.Limit, key string)) {
	t.Helper()
	for i, spec := range specs {
		name := spec.Algorithm.String()
		if spec.Strict {
			name += " strict"
		}
		t.Run(name, func(t *testing.T) { f(t, limit.Must(spec), fmt.Sprintf("key %d", i)) })
	}
}

// batch calls Take; an error of any take fails the test.
func (h Harness) batch(tb testing.TB, takes ...store.Take) []store.Result {
	tb.Helper()
	results := make([]store.Result, len(takes))
	h.Store.Take(tb.Context(), takes, results)
	for i := range results {
		if results[i].Err != nil {
			tb.Errorf("take %d of %d, key %.40q: %v", i, len(takes), takes[i].Key, results[i].Err)
		}
	}
	return results
}

// hit takes one hit or more on key.
func (h Harness) hit(tb testing.TB, key string, l *limit.Limit, hits int64) limit.Decision {
	tb.Helper()
	return h.batch(tb, take(key, l, hits))[0].Decision
}

// as is a store as what it is besides; the test ends where it is no such thing.
func as[T any](tb testing.TB, s store.Store) T {
	tb.Helper()
	one, ok := s.(T)
	if !ok {
		tb.Fatalf("%T is no %v", s, reflect.TypeFor[T]())
	}
	return one
}

// everyByte is each byte once.
func everyByte() string {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return string(all)
}

func take(key string, l *limit.Limit, hits int64) store.Take {
	return store.Take{Key: []byte(key), Limit: l, Hits: hits}
}

// op makes a take of another op than a hit.
func op(op store.Op, key string, l *limit.Limit, hits int64) store.Take {
	return store.Take{Key: []byte(key), Limit: l, Hits: hits, Op: op}
}
