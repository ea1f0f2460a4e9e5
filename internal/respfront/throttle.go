package respfront

import (
	"math"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// CL.THROTTLE as redis-cell 0.5 has it:
//
//	CL.THROTTLE key max_burst count period [quantity]
//
// count hits pass in period seconds, and max_burst more at once: the limit is max_burst+1. The
// quantity is 1 where none is named; 0 looks and charges nothing, and one below 0 gives back.
//
// A key is one bucket, whatever limits it is asked about with. It is that of headgate.Keyed.

// Errors of CL.THROTTLE, as redis-cell has them.
const (
	errUsage = refusal("Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]")
	errRate  = refusal("Cell error: Zero rates are not supported")
)

// throttle is a CL.THROTTLE that was read.
type throttle struct {
	key   string
	limit *limit.Limit
	hits  int64
	op    store.Op
}

// rate is the limit that a CL.THROTTLE names. A burst of 0 is a limit of 1, and one of -1 a limit
// of 0, by which nothing ever passes.
type rate struct{ burst, count, period int64 }

// readThrottle reads the arguments, the name included.
func readThrottle(args []string, compiled func(rate) (*limit.Limit, error)) (t throttle, err error) {
	if len(args) < 5 || len(args) > 6 {
		return t, errUsage
	}
	numbers := [4]int64{3: 1}
	for i, text := range args[2:] {
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return t, refuse("Cell error: Couldn't parse as integer: %.40s", text)
		}
	}
	burst, count, period, quantity := numbers[0], numbers[1], numbers[2], numbers[3]
	t.key = args[1]
	if err := descriptor.Validate([]descriptor.Entry{{Key: keyEntry, Value: t.key}}); err != nil {
		return t, refuse("Cell error: the key: %v", err)
	}
	switch {
	case t.key == "":
		return t, refusal("Cell error: the key is empty; hint: all callers would share one bucket")
	case count == 0 || period == 0:
		return t, errRate
	case count < 0 || period < 0 || burst < -1:
		return t, refusal("Cell error: a limit below 0; hint: max_burst is 0 or more, count and period are 1 or more")
	case quantity > limit.MaxQuota || quantity < -limit.MaxQuota:
		return t, refuse("Cell error: a quantity of %d; hint: %d at most", quantity, int64(limit.MaxQuota))
	}
	if t.hits = quantity; quantity < 0 {
		t.hits, t.op = -quantity, store.Refund
	}
	t.limit, err = compiled(rate{burst, count, period})
	return t, err
}

// compile returns the limit that r names.
func compile(r rate) (*limit.Limit, error) {
	if r.period > int64(limit.MaxPeriod/time.Second) {
		return nil, refuse("Cell error: a period of %d seconds; hint: %d at most", r.period, int64(limit.MaxPeriod/time.Second))
	}
	spec := limit.Spec{Algorithm: limit.GCRA, Quota: r.count, Period: time.Duration(r.period) * time.Second, Burst: min(r.burst, math.MaxInt64-1) + 1}
	if spec.Burst == 0 {
		spec.Quota = 0
	}
	l, err := limit.New(spec)
	if err != nil {
		return nil, refuse("Cell error: %v", err)
	}
	return l, nil
}

// keyEntry is the key of the entry of a bucket that a caller names.
const keyEntry = "key"

// answerThrottle appends the answer to a decision by the limit that the caller named.
func (r *reply) answerThrottle(v *headgate.Verdict) {
	d := &v.Decision
	left, reset := int64(-1), int64(-1)
	if v.Counted() {
		left, reset = max(d.Remaining, 0), cellSeconds(d.ResetAfter)
	}
	retry := int64(-1)
	if !d.Allowed && !d.Never {
		retry = cellSeconds(d.RetryAfter)
	}
	r.five(d.Allowed, d.Limit, left, retry, reset)
}

func (r *reply) five(allowed bool, limit, left, retry, reset int64) {
	limited := int64(1)
	if allowed {
		limited = 0
	}
	r.array(5)
	for _, n := range [...]int64{limited, limit, left, retry, reset} {
		r.integer(n)
	}
}

// cellSeconds returns d in seconds as redis-cell rounds: up, where whole milliseconds remain.
// What is less than a millisecond is dropped.
func cellSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second >= time.Millisecond {
		seconds++
	}
	return seconds
}
