package limit_test

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/limit"
)

// The state of a bucket is a value that the caller keeps.
func ExampleDecide() {
	perMinute := limit.Must(limit.PerMinute(2))
	now := limit.MicrosOf(time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC))
	var bucket limit.State
	for range 3 {
		var d limit.Decision
		bucket, d = limit.Decide(perMinute, bucket, now, 1)
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter)
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 1m30s
}

// No hits are a peek, which changes nothing.
func ExampleDecide_peek() {
	l := limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 10, Period: time.Second, Burst: 20})
	now := limit.MicrosOf(time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC))
	bucket, _ := limit.Decide(l, limit.State{}, now, 15)
	_, d := limit.Decide(l, bucket, now, 0)
	fmt.Println(d.Remaining, "of", d.Limit, "left, full again in", d.ResetAfter)
	// Output: 5 of 20 left, full again in 1.5s
}

// What a request did not need after all is given back.
func ExampleRefund() {
	l := limit.Must(limit.PerHour(1000))
	now := limit.MicrosOf(time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC))
	bucket, _ := limit.Decide(l, limit.State{}, now, 300)
	_, d := limit.Refund(l, bucket, now, 120)
	fmt.Println(d.Remaining)
	// Output: 820
}

// A queue says how long to wait instead of denying.
func ExampleDecide_leakyQueue() {
	l := limit.Must(limit.Spec{Algorithm: limit.LeakyQueue, Quota: 2, Period: time.Second, MaxDelay: time.Second})
	now := limit.MicrosOf(time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC))
	var bucket limit.State
	for range 4 {
		var d limit.Decision
		bucket, d = limit.Decide(l, bucket, now, 1)
		fmt.Println(d.Allowed, "wait", d.Delay, "or retry after", d.RetryAfter)
	}
	// Output:
	// true wait 0s or retry after 0s
	// true wait 500ms or retry after 0s
	// true wait 1s or retry after 0s
	// false wait 0s or retry after 500ms
}

// Requests in flight hold slots until they release them.
func ExampleAcquire() {
	l := limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 1, Period: time.Minute})
	now := limit.MicrosOf(time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC))
	const alice, bob limit.Hold = 0xa11ce, 0xb0b
	bucket, d := limit.Acquire(l, limit.State{}, now, alice)
	fmt.Println("alice", d.Allowed)
	bucket, d = limit.Acquire(l, bucket, now, bob)
	fmt.Println("bob", d.Allowed, "or at last after", d.RetryAfter)
	bucket, _ = limit.Release(l, bucket, now, alice)
	_, d = limit.Acquire(l, bucket, now, bob)
	fmt.Println("bob", d.Allowed)
	// Output:
	// alice true
	// bob false or at last after 1m0s
	// bob true
}

// A ban counts what others have denied.
func ExampleCharge_ban() {
	l := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 2, Period: time.Minute, BanFor: time.Hour})
	now := limit.MicrosOf(time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC))
	var bucket limit.State
	for range 3 {
		_, d := limit.Decide(l, bucket, now, 1)
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter)
		bucket, _ = limit.Charge(l, bucket, now, 1)
	}
	// Output:
	// true 2 0s
	// true 1 0s
	// false 0 1h0m0s
}

// Errors say which field is wrong and what to do instead.
func ExampleNew() {
	_, err := limit.New(limit.Spec{Quota: 100, Period: time.Minute, Burst: 20})
	fmt.Println(err)
	// Output: limit: burst is not for sliding_window, which counts in windows; hint: pair it with a second limit over a shorter period, or use token_bucket
}

// Calendar windows end when the day does where the customer lives.
func ExampleNewCalendar() {
	berlin, err := limit.NewCalendar(limit.CalendarDay, "Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 5, Calendar: berlin})
	springForward := time.Date(2026, time.March, 28, 23, 0, 0, 0, time.UTC)
	_, d := limit.Decide(l, limit.State{}, limit.MicrosOf(springForward), 1)
	fmt.Println(d.ResetAfter)
	// Output: 23h0m0s
}
