package middleware

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/go-chi/httprate"
	"github.com/ulule/limiter/v3"
	ululehttp "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/memstore"
)

const (
	// addresses is the number of different peers.
	addresses = 1000
	// generous is a quota that nobody uses up, per hour.
	generous = math.MaxInt32
)

// wrap puts a middleware around a handler; quota is per hour and address.
type wrap func(tb testing.TB, quota int64) func(http.Handler) http.Handler

type system struct {
	name string
	wrap wrap
}

// lean are the fields that ulule/limiter sends.
var lean = httplimit.Options{Answer: httplimit.Answer{Generation: httplimit.NoDraft}}

var systems = []system{
	{"bare", func(testing.TB, int64) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler { return next }
	}},
	{"headgate/httplimit", func(tb testing.TB, quota int64) func(http.Handler) http.Handler {
		return headgateLimits(tb, quota, httplimit.Options{})
	}},
	{"headgate/httplimit_x_fields_only", func(tb testing.TB, quota int64) func(http.Handler) http.Handler {
		return headgateLimits(tb, quota, lean)
	}},
	{"headgate/httplimit_by_rules", headgateRules},
	{"headgate/httplimit_refund", func(tb testing.TB, quota int64) func(http.Handler) http.Handler {
		return headgateLimits(tb, quota, httplimit.Options{Refund: func(status int) bool { return status >= 500 }})
	}},
	{"headgate/httplimit_with_result", func(tb testing.TB, quota int64) func(http.Handler) http.Handler {
		return headgateLimits(tb, quota, httplimit.Options{PassResult: true})
	}},
	{"headgate/httplimit_constant_checker", headgateConstant},
	{"httprate/sliding_window", func(_ testing.TB, quota int64) func(http.Handler) http.Handler {
		return httprate.LimitBy(int(quota), time.Hour, func(r *http.Request) (string, error) {
			host, _, err := net.SplitHostPort(r.RemoteAddr)
			return httprate.CanonicalizeIP(host), err
		})
	}},
	{"ulule-limiter/fixed_window", func(_ testing.TB, quota int64) func(http.Handler) http.Handler {
		l := limiter.New(memory.NewStore(), limiter.Rate{Period: time.Hour, Limit: quota})
		return ululehttp.NewMiddleware(l).Handler
	}},
}

func newLimiter(tb testing.TB, set *rules.Set) *headgate.Limiter {
	tb.Helper()
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	l, err := headgate.New(headgate.Options{Store: buckets, Rules: set})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func newHTTPLimit(tb testing.TB, c httplimit.Checker, o httplimit.Options) func(http.Handler) http.Handler {
	tb.Helper()
	m, err := httplimit.New(c, o)
	if err != nil {
		tb.Fatal(err)
	}
	return m.Wrap
}

func headgateLimits(tb testing.TB, quota int64, o httplimit.Options) func(http.Handler) http.Handler {
	o.Limits = []rules.NamedLimit{{Limit: limit.Must(limit.PerHour(quota))}}
	return newHTTPLimit(tb, newLimiter(tb, nil), o)
}

func headgateRules(tb testing.TB, quota int64) func(http.Handler) http.Handler {
	text := fmt.Sprintf("domain: api\ndescriptors: [{key: remote_address, rate_limit: {unit: hour, requests_per_unit: %d}}]\n", quota)
	set, err := rulefile.Load([]rulefile.File{{Name: "bench.yaml", Data: []byte(text)}}, rulefile.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return newHTTPLimit(tb, newLimiter(tb, set), httplimit.Options{Domain: "api"})
}

// constant decides without counting: what is left is the middleware itself.
type constant struct {
	limit *limit.Limit
	allow bool
}

// Check implements httplimit.Checker.
func (c constant) Check(_ context.Context, _ []headgate.Request, responses []headgate.Response) error {
	r := &responses[0]
	d := limit.Decision{Allowed: c.allow, Limit: c.limit.Quota, ResetAfter: time.Minute}
	if !c.allow {
		d.RetryAfter = time.Minute
	}
	r.Allowed = c.allow
	r.Verdicts = append(r.Verdicts[:0], headgate.Verdict{Limit: c.limit, Hits: 1, Decision: d})
	return nil
}

func headgateConstant(tb testing.TB, quota int64) func(http.Handler) http.Handler {
	l := limit.Must(limit.PerHour(quota))
	return newHTTPLimit(tb, constant{l, quota > 1}, httplimit.Options{Limits: []rules.NamedLimit{{Limit: l}}})
}

// response is a ResponseWriter whose header is new for each request, as a
// server's is.
type response struct {
	header http.Header
	status int
}

func (w *response) Header() http.Header         { return w.header }
func (w *response) WriteHeader(status int)      { w.status = status }
func (w *response) Write(p []byte) (int, error) { return len(p), nil }

// mediaType is what the handler answers, as nearly all do: the header of an
// answer is made in any case.
var mediaType = []string{"application/json"}

var handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = mediaType
	w.WriteHeader(http.StatusOK)
})

// BenchmarkMiddleware is one request through a middleware. The row "bare" has
// none: what it takes is part of all others.
func BenchmarkMiddleware(b *testing.B) { measure(b, generous, http.StatusOK) }

// BenchmarkMiddlewareDenied is one request that is denied, its answer written.
func BenchmarkMiddlewareDenied(b *testing.B) { measure(b, 1, http.StatusTooManyRequests) }

func measure(b *testing.B, quota int64, status int) {
	for _, s := range systems {
		if s.name == "bare" && status != http.StatusOK {
			continue
		}
		h := s.wrap(b, quota)(handler)
		requests := make([]*http.Request, addresses)
		for i := range requests {
			requests[i] = newRequest(i)
			// Once for each address, so that all buckets exist and limits of
			// one are used up.
			h.ServeHTTP(&response{header: http.Header{}}, requests[i])
		}
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			start := cpuTime()
			b.RunParallel(func(pb *testing.PB) {
				var w response
				for i := 0; pb.Next(); i++ {
					w.header, w.status = make(http.Header), 0
					h.ServeHTTP(&w, requests[i%addresses])
					if w.status != status {
						b.Errorf("status %d, want %d", w.status, status)
						return
					}
				}
			})
			b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

func newRequest(i int) *http.Request {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://api.example/v1/orders", nil)
	if err != nil {
		panic(err)
	}
	r.RemoteAddr = fmt.Sprintf("192.0.%d.%d:40000", i/256+2, i%256)
	return r
}

// cpuTime returns the processor time that this process has used. It does not
// grow when other processes want the processor.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
