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

func (l lasting) Ends() (caller, own <-chan struct{}) { return nil, l.Done() }

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
				co := newTakes(func(ctx context.Context, takes []store.Take, results []store.Result) {
					if len(takes) == 1 {
						<-first
						return
					}
					<-ctx.Done()
					took = time.Since(began)
					if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
						t.Errorf("the flight ended with %v", ctx.Err())
					}
				}, Options{
					Flights: 1,
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
					_ = co.Ask(ctx, takes, make([]store.Result, 1)) // what it ends with is not the question
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

// twoEnds is a Patient whose caller, or which itself, ends when a channel is closed.
type twoEnds struct {
	lasting
	caller, own chan struct{}
}

func (e twoEnds) Ends() (caller, own <-chan struct{}) { return e.caller, e.own }

func (e twoEnds) Done() <-chan struct{} { panic("who waits for a flight looks at the ends") }

func (e twoEnds) Err() error {
	select {
	case <-e.caller:
		return context.Canceled
	case <-e.own:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// A Patient that waits for a flight goes away when its caller does, and when it ends by
// itself.
func TestAPatientLeavesByEitherEnd(t *testing.T) {
	for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			first := make(chan struct{})
			co := newTakes(func(context.Context, []store.Take, []store.Result) { <-first }, Options{Flights: 1})
			takes := []store.Take{{Key: []byte("key"), Limit: limit.Must(limit.PerHour(10)), Hits: 1}}
			go func() { _ = co.Ask(context.Background(), takes, make([]store.Result, 1)) }()
			synctest.Wait()
			e := twoEnds{lastingFor(t, time.Minute, time.Hour), make(chan struct{}), make(chan struct{})}
			got := make(chan error, 1)
			go func() { got <- co.Ask(e, takes, make([]store.Result, 1)) }()
			synctest.Wait()
			if want == context.Canceled {
				close(e.caller)
			} else {
				close(e.own)
			}
			synctest.Wait()
			select {
			case err := <-got:
				if !errors.Is(err, want) {
					t.Errorf("it left with %v, want %v", err, want)
				}
			default:
				t.Errorf("it waits on after %v", want)
			}
			close(first)
			synctest.Wait()
		})
	}
}
