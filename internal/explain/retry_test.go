package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore"
)

// oneOfEach has a rule of each algorithm that a rule can have, by its key. All of them
// are denied after three requests of one hit, by a limit that comes back in hours.
const oneOfEach = `
domain: shop
descriptors:
- {key: sliding_window, rate_limit: {unit: day, requests_per_unit: 3, algorithm: sliding_window}}
- {key: fixed_window, rate_limit: {unit: day, requests_per_unit: 3, algorithm: fixed_window}}
- {key: sub_windows, rate_limit: {unit: day, requests_per_unit: 3, algorithm: sub_windows}}
- {key: sliding_log, rate_limit: {unit: day, requests_per_unit: 3, algorithm: sliding_log}}
- {key: token_bucket, rate_limit: {unit: day, requests_per_unit: 3, algorithm: token_bucket}}
- {key: leaky_bucket, rate_limit: {unit: day, requests_per_unit: 3, algorithm: leaky_bucket}}
- {key: leaky_queue, rate_limit: {unit: day, requests_per_unit: 3, algorithm: leaky_queue, max_queue: 2}}
- {key: gcra, rate_limit: {unit: day, requests_per_unit: 3, algorithm: gcra}}
- {key: calendar, rate_limit: {unit: month, requests_per_unit: 3, algorithm: fixed_window}}
- {key: denied_sliding_window, rate_limit: {unit: day, requests_per_unit: 3, algorithm: sliding_window, count_denied: true}}
- {key: denied_sub_windows, rate_limit: {unit: day, requests_per_unit: 3, algorithm: sub_windows, count_denied: true}}
- {key: concurrency, concurrency: {limit: 3, timeout: 1h}}
- {key: ban, rate_limit: {unit: day, requests_per_unit: 1, algorithm: sliding_log}, ban: {after: 2, within: 1h, for: 2h}}
`

// What an explanation says of when a denied request would pass is what that request is
// told, by every algorithm.
func TestRetryAfterIsWhatTheRequestIsTold(t *testing.T) {
	o, err := redisstore.ParseURL(testserver.Redis(t, testserver.RedisConfig{}).URL())
	if err != nil {
		t.Fatal(err)
	}
	o.Budget = 30 * time.Second
	redis, err := redisstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	for name, s := range map[string]store.Store{"memory": memory(t), "redis": redis} {
		l := newLimiter(t, oneOfEach, headgate.Options{Store: s})
		for _, line := range strings.Split(oneOfEach, "\n") {
			_, key, ok := strings.Cut(line, "{key: ")
			if !ok {
				continue
			}
			key, _, _ = strings.Cut(key, ",")
			t.Run(name+" "+key, func(t *testing.T) {
				for run := 0; ; run++ {
					today := time.Now().UTC().YearDay()
					fault := retryFault(t, l, fmt.Sprintf("%s:%d", key, run), name == "memory")
					switch {
					case fault == "":
						return
					case time.Now().UTC().YearDay() == today: // else a window has ended meanwhile
						t.Fatal(fault)
					}
				}
			})
		}
	}
}

// retryFault uses up the limits of a descriptor, and says what an explanation then tells
// otherwise than the request itself is told; "" for nothing. Between the two the clock goes
// on, unless it stands.
func retryFault(t *testing.T, l *headgate.Limiter, name string, stands bool) string {
	t.Helper()
	check := func() headgate.Response {
		req, responses := request(name), make([]headgate.Response, 1)
		req.Hold = limit.NewHold()
		if err := l.Check(t.Context(), []headgate.Request{req}, responses); err != nil {
			t.Fatal(err)
		}
		return responses[0]
	}
	for range 3 {
		check()
	}
	began := time.Now()
	limits := explained(t, l, request(name)).Descriptors[0].Limits
	real := check()
	passed := int64(time.Since(began)/time.Millisecond) + 2 // both are rounded up
	if stands {
		passed = 0
	}
	denied := false
	for i := range real.Verdicts {
		d := &real.Verdicts[i].Decision
		told := int64((d.RetryAfter + time.Millisecond - 1) / time.Millisecond)
		said := limits[i].After.RetryAfterMS
		denied = denied || !d.Allowed
		if limits[i].Allowed != d.Allowed || said < told || said > told+passed || !d.Allowed && said == 0 {
			return fmt.Sprintf("%s: explained as %+v, told %+v", limits[i].Limit, limits[i].After, *d)
		}
	}
	if !denied {
		return fmt.Sprintf("nothing denies: %+v", real)
	}
	return ""
}
