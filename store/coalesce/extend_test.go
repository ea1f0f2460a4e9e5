package coalesce

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// lasting is a Patient that goes on for a while after its deadline.
type lasting struct {
	context.Context
	deadline, last time.Time
}

func (l lasting) Deadline() (time.Time, bool) { return l.deadline, true }
func (l lasting) Last() time.Time             { return l.last }

func lastingFor(t *testing.T, deadline, last time.Duration) lasting {
	now := time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), now.Add(last))
	t.Cleanup(cancel)
	return lasting{ctx, now.Add(deadline), now.Add(last)}
}

// A flight of several callers goes on after its deadline if it is told to, by the
// earliest end of those aboard, and is asked once.
func TestFlightsGoOn(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		extend, second time.Duration // second is when the second caller aboard ends at the latest
		want           time.Duration
	}{
		"not":                       {0, 40 * ms, 20 * ms},
		"for a while":               {7 * ms, 40 * ms, 27 * ms},
		"as long as the first ends": {time.Hour, 30 * ms, 30 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, first := 0, make(chan struct{})
				var took time.Duration
				began := time.Now()
				co := New(Options{
					Flights: 1,
					Fly: func(ctx context.Context, takes []store.Take, results []store.Result) {
						if len(takes) == 1 {
							<-first
							return
						}
						<-ctx.Done()
						took = time.Since(began)
						if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
							t.Errorf("the flight ended with %v", ctx.Err())
						}
					},
					Extend: func(due, last time.Time) time.Duration {
						asked++
						if due.Sub(began) != 20*ms || last.Sub(began) != min(40*ms, c.second) {
							t.Errorf("due after %v, last after %v", due.Sub(began), last.Sub(began))
						}
						return min(c.extend, last.Sub(due))
					},
				})
				take := func(ctx context.Context) {
					takes := []store.Take{{Key: []byte("key"), Limit: limit.Must(limit.PerHour(10)), Hits: 1}}
					_ = co.Take(ctx, takes, make([]store.Result, 1)) // what it ends with is not the question
				}
				go take(t.Context())
				synctest.Wait()
				go take(lastingFor(t, 20*ms, 40*ms))
				synctest.Wait()
				go take(lastingFor(t, 20*ms, c.second))
				synctest.Wait()
				close(first)
				time.Sleep(time.Minute)
				synctest.Wait()
				if took != c.want || asked != 1 {
					t.Errorf("the flight lasted %v, want %v; asked %d times", took, c.want, asked)
				}
			})
		})
	}
}
