package limit

import (
	"fmt"
	"slices"
	"time"
)

// Micros is an instant: microseconds since the Unix epoch, UTC. All state and
// all arithmetic of this package are in whole microseconds, because a Lua
// number holds integers exactly only up to 2^53, which microseconds reach in
// the year 2255 and nanoseconds passed in 1970.
type Micros int64

// MicrosOf converts t, rounding down to the microsecond.
func MicrosOf(t time.Time) Micros { return Micros(t.UnixMicro()) }

// Time converts m to a time.Time in UTC.
func (m Micros) Time() time.Time { return time.UnixMicro(int64(m)).UTC() }

// Bounds of a Limit. They keep every product of the arithmetic inside what the
// multi-word helpers of this package and of the Lua script compute exactly.
const (
	// MaxQuota bounds Quota and Burst of the windowed algorithms and the hits
	// of one request: 2^50, a petabyte when the quota is counted in bytes.
	MaxQuota = 1 << 50
	// MaxBucketQuota bounds Quota and Burst of the bucket algorithms: 2^45.
	MaxBucketQuota = 1 << 45
	// MaxLogQuota bounds the Quota of the sliding log, which stores a stamp
	// of eight bytes for every admitted hit.
	MaxLogQuota = 10_000
	// MaxPeriod is the longest Period: 366 days.
	MaxPeriod = 366 * 24 * time.Hour
	// MinSubWindows and MaxSubWindows bound SubWindows.
	MinSubWindows, MaxSubWindows = 2, 60
)

// Algorithm names the way in which a Limit counts.
type Algorithm uint8

// The algorithms. The zero value is the default of Headgate.
const (
	// SlidingWindow weighs the previous window by its overlap (A2).
	SlidingWindow Algorithm = iota
	// FixedWindow counts in aligned or calendar windows (A1).
	FixedWindow
	// SubWindows counts in 2..60 parts of the period (A3).
	SubWindows
	// SlidingLog remembers the instant of every hit (A4).
	SlidingLog
	// TokenBucket refills Quota hits per Period up to Burst (A5).
	TokenBucket
	// LeakyBucket is the meter: evenly spaced, no burst (A6).
	LeakyBucket
	// LeakyQueue is the shaper: hits pass later, after a bounded delay (A6).
	LeakyQueue
	// GCRA is the generic cell rate algorithm of ATM traffic management (A7).
	GCRA
	// Concurrency counts requests in flight (A8); see Acquire, Renew, Release.
	Concurrency
	// Ban counts denials and bans for a time after too many.
	Ban
)

var algorithmNames = [...]string{
	SlidingWindow: "sliding_window",
	FixedWindow:   "fixed_window",
	SubWindows:    "sub_windows",
	SlidingLog:    "sliding_log",
	TokenBucket:   "token_bucket",
	LeakyBucket:   "leaky_bucket",
	LeakyQueue:    "leaky_queue",
	GCRA:          "gcra",
	Concurrency:   "concurrency",
	Ban:           "ban",
}

// String returns the name used in rules, JSON, metrics and vectors.
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return fmt.Sprintf("algorithm(%d)", uint8(a))
}

// ParseAlgorithm is the inverse of String.
func ParseAlgorithm(name string) (Algorithm, error) {
	if a := slices.Index(algorithmNames[:], name); a >= 0 {
		return Algorithm(a), nil
	}
	return 0, fmt.Errorf("unknown algorithm %q; hint: one of sliding_window, fixed_window, sub_windows, sliding_log, token_bucket, leaky_bucket, leaky_queue, gcra, concurrency, ban", name)
}

// IsBucket reports whether a drains continuously and so has a Burst:
// token_bucket, leaky_bucket, leaky_queue and gcra.
func (a Algorithm) IsBucket() bool { return a >= TokenBucket && a <= GCRA }

// Spec is a limit as a person writes it. Its zero value is invalid: Quota may
// be zero (nothing passes) but Period must be given, or Calendar.
type Spec struct {
	// Algorithm defaults to SlidingWindow.
	Algorithm Algorithm
	// Quota is the number of hits allowed per Period; 0 denies every hit. Of
	// concurrency it is the number of slots, of ban the number of denials that
	// lead to a ban, at least 1.
	Quota int64
	// Period is the length of the window, or the time in which a bucket
	// refills by Quota; from 1 µs to MaxPeriod, in whole microseconds. Of
	// concurrency it is the timeout of a slot, of ban the time within which
	// denials are counted.
	Period time.Duration
	// Burst is the most hits admitted at one instant from idle. Only
	// token_bucket and gcra take it; 0 means Quota.
	Burst int64
	// SubWindows is the number of parts of sub_windows, 2 to 60; 0 means 10.
	SubWindows int
	// Strict makes sub_windows count its oldest part whole, so that no window
	// ever holds more than Quota, at the price of up to 1/(n+1) of it. The
	// zero value interpolates the oldest part (smooth).
	Strict bool
	// MaxDelay bounds how long leaky_queue holds a hit back; 0 means Period.
	MaxDelay time.Duration
	// MaxQueue bounds how many hits wait in a leaky_queue at one time;
	// 0 means no bound beyond MaxDelay.
	MaxQueue int64
	// CountDenied charges denied hits too, as envoyproxy/ratelimit does. Only
	// fixed_window, sliding_window and sub_windows take it.
	CountDenied bool
	// BanFor is how long a ban lasts, up to MaxBan, in whole microseconds. Only
	// ban takes it.
	BanFor time.Duration
	// Calendar makes the windows of fixed_window calendar days, weeks, months
	// or years in a named time zone; Period is then ignored. Nil means plain
	// windows, aligned to the Unix epoch.
	Calendar *Calendar
	// Carry says what becomes of what a bucket has used when its limit changes; see
	// carry.go. Concurrency and ban take only the zero value.
	Carry Carry
	// MaxDebt bounds the hits that Charge may take a bucket beyond what it admits;
	// what is more is forgiven. It is up to MaxQuota, for buckets up to
	// MaxBucketQuota and what drains in 35 years; 0 leaves the bound that Charge
	// names. Concurrency and ban have no debts.
	MaxDebt int64
}

// Carry says what becomes of what a bucket has used when the numbers of its limit
// or its algorithm change.
type Carry uint8

const (
	// CarryUsed keeps the hits: 30 used of 100 are 30 of 200. What cannot be told
	// exactly is taken for the larger use. It costs nothing.
	CarryUsed Carry = iota
	// CarryShare keeps the share that was used: 30 of 100 are 60 of 200, rounded up.
	// The state then holds what the limit was (seven words more); of a state that
	// does not, the hits are kept.
	CarryShare
	// CarryNothing begins anew whenever the algorithm, the quota, the burst or the
	// period change; the state is like that of CarryShare.
	CarryNothing
)

var carryNames = [...]string{CarryUsed: "carry", CarryShare: "proportional", CarryNothing: "reset"}

// String returns the word used in rules and JSON.
func (c Carry) String() string {
	if int(c) < len(carryNames) {
		return carryNames[c]
	}
	return fmt.Sprintf("carry(%d)", uint8(c))
}

// ParseCarry is the inverse of String.
func ParseCarry(name string) (Carry, error) {
	if c := slices.Index(carryNames[:], name); c >= 0 {
		return Carry(c), nil
	}
	return 0, fmt.Errorf("unknown carry-over %q; hint: carry, proportional or reset", name)
}

// PerSecond, PerMinute, PerHour and PerDay return the Spec of a sliding window
// counter with that quota.
func PerSecond(quota int64) Spec { return Spec{Quota: quota, Period: time.Second} }

// PerMinute: see PerSecond.
func PerMinute(quota int64) Spec { return Spec{Quota: quota, Period: time.Minute} }

// PerHour: see PerSecond.
func PerHour(quota int64) Spec { return Spec{Quota: quota, Period: time.Hour} }

// PerDay: see PerSecond.
func PerDay(quota int64) Spec { return Spec{Quota: quota, Period: 24 * time.Hour} }

// Limit is a validated, immutable Spec, with its defaults filled in, and the
// numbers that deciding needs. Make one with New and do not change the embedded
// Spec afterwards.
type Limit struct {
	Spec

	periodMicros int64 // Period
	partMicros   int64 // sub_windows: length of one part, rounded up
	banMicros    int64 // ban: BanFor in µs
	// One hit takes num/den microseconds to drain: Period/Quota in lowest
	// terms (the emission interval of GCRA, exact), which is emission.
	num, den int64
	emission span
	// byNum and byPeriod divide by num and, where it is not 0, periodMicros.
	byNum, byPeriod divisor
	// tolerance is the most by which a TAT may be ahead of now: the time to
	// drain Burst hits; for leaky_queue see there.
	tolerance span
	// capacity is Decision.Limit.
	capacity int64
	// owed is the most by which the TAT of a bucket that owes may be ahead of now.
	owed span
	// per is that of the windows of fixed_window and sliding_window, else 0.
	per Per
	// form is that of the states that l writes, unused that of the unused state:
	// those are decided on as they are. With a Carry no state is.
	form, unused form
}

// New checks spec and returns its Limit. Errors name the field at fault and
// carry a hint.
func New(spec Spec) (*Limit, error) {
	l := &Limit{Spec: spec}
	if err := l.compile(); err != nil {
		return nil, err
	}
	return l, nil
}

// Must is New for limits that are known to be valid: package variables and
// tests. It panics on an error.
func Must(spec Spec) *Limit {
	l, err := New(spec)
	if err != nil {
		panic(err)
	}
	return l
}

// State is what is stored for one bucket. The zero State is an unused bucket.
// The meaning of A, B, C and Wide belongs to the algorithm that Kind names and
// is written at its file; what a State of another kind counts for is in carry.go.
type State struct {
	// Kind is 1 + the Algorithm that wrote the state; 0 is unused, and KindTerms a
	// state together with the limit under which it was written.
	Kind uint8
	// Per is the period of a window that A is the start of; else 0.
	Per     Per
	A, B, C int64
	// Wide holds what does not fit: the parts of sub_windows, the stamps of
	// sliding_log, the slots of concurrency. Decide and the like may append to it
	// and may reuse its memory when they change the state, as append does; they
	// leave it alone on a denial that is not charged (but for the exception that
	// Decide names) and on a peek.
	Wide []int64
}

// Decision is the answer for one limit. Times are whole microseconds, rounded
// up; Remaining is rounded down.
type Decision struct {
	// Allowed says whether the hits may pass.
	Allowed bool
	// Never says that so many hits can never pass at once, whatever the wait.
	// It is only set when Allowed is not.
	Never bool
	// Limit is the quota of the windowed algorithms, the burst of the buckets
	// and the longest queue of leaky_queue; the slots of concurrency, and the
	// denials that lead to a ban.
	Limit int64
	// Remaining is the number of hits admissible right now, after this one. Of
	// concurrency it is the number of free slots, of a ban that of denials until
	// there is one.
	Remaining int64
	// ResetAfter is the time until the bucket is as if unused; 0 when it is.
	ResetAfter time.Duration
	// RetryAfter is the time until exactly these hits would pass if nothing
	// else happened. It is 0 when Allowed or Never is set, else at least 1 µs. A
	// slot of concurrency is mostly released long before.
	RetryAfter time.Duration
	// Delay is how long an allowed hit of leaky_queue must wait before it goes
	// on; 0 for all others.
	Delay time.Duration
}
