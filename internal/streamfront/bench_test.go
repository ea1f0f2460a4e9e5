package streamfront

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client/stream"
	"github.com/headgate/headgate/client/stream/streampb"
	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/store/memstore"
)

// endless is a limiter in memory that lets all pass.
func endless(b *testing.B) rls.Checker {
	counts, err := memstore.New(memstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { counts.Close() })
	l, err := headgate.New(headgate.Options{Store: counts, Rules: testrules.Load(b, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 4000000000, algorithm: fixed_window}}]\n")})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// BenchmarkChecks asks in calls and over a stream, on one connection to a server in memory.
// cpu-ns/op is the processor time of the whole process, client and server, for a check.
func BenchmarkChecks(b *testing.B) {
	for _, callers := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("calls/%d callers", callers), func(b *testing.B) {
			service := serve(b, true, endless(b), nil)
			parallel(b, callers, rlsv3.NewRateLimitServiceClient(dial(b, service.addr)))
		})
		b.Run(fmt.Sprintf("stream/%d callers", callers), func(b *testing.B) {
			service := serve(b, true, endless(b), nil)
			c := stream.New(dial(b, service.addr), stream.Options{})
			b.Cleanup(func() { c.Close() })
			parallel(b, callers, c)
		})
	}
	for _, checks := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("messages of %d", checks), func(b *testing.B) { pages(b, checks) })
	}
}

// parallel asks by several callers, each of which waits for its answer.
func parallel(b *testing.B, callers int, c rlsv3.RateLimitServiceClient) {
	if _, err := c.ShouldRateLimit(b.Context(), asks("ann")); err != nil {
		b.Fatal(err)
	}
	turns := make(chan struct{}, callers)
	ended := make(chan error, callers)
	measured(b, func() {
		for range callers {
			go func() {
				var failed error
				for range turns {
					if _, err := c.ShouldRateLimit(context.Background(), asks("ann")); err != nil {
						failed = err
					}
				}
				ended <- failed
			}()
		}
		for range b.N {
			turns <- struct{}{}
		}
		close(turns)
		for range callers {
			if err := <-ended; err != nil {
				b.Error(err)
			}
		}
	})
}

// pages sends messages of so many checks, some ahead of their answers.
func pages(b *testing.B, checks int) {
	service := serve(b, true, endless(b), nil)
	s, err := streampb.NewCheckStreamClient(dial(b, service.addr)).Check(b.Context(), grpc.WaitForReady(true))
	if err != nil {
		b.Fatal(err)
	}
	users := make([]string, checks)
	for i := range users {
		users[i] = "ann"
	}
	m := ofUsers(1, users...)
	sent := make(chan error, 1)
	measured(b, func() {
		go func() {
			for n := 0; n < b.N; n += checks {
				if err := s.Send(m); err != nil {
					sent <- err
					return
				}
			}
			sent <- s.CloseSend()
		}()
		for n := 0; n < b.N; {
			r, err := s.Recv()
			if err != nil {
				b.Fatal(err)
			}
			n += len(r.GetAnswers())
		}
		if err := <-sent; err != nil {
			b.Fatal(err)
		}
	})
}

// measured does something, and reports the processor time that it took.
func measured(b *testing.B, do func()) {
	b.ReportAllocs()
	before := processorTime(b)
	b.ResetTimer()
	do()
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
