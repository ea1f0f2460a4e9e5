package conn

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// bubble is a server with a session on a connection that is never used, for tests in which
// time is not real. Its reader seems to wait for bytes, and none are there.
func bubble(t *testing.T, budget time.Duration) *Server {
	t.Helper()
	o := &Options{Budget: budget}
	late := NewLateness(budget)
	t.Cleanup(late.Close)
	one, other := net.Pipe()
	t.Cleanup(func() { one.Close(); other.Close() })
	conn := watchConn(one, func() {})
	conn.waiting.Store(true)
	l := &link{options: o}
	l.current.Store(&Session{Options: o, conn: conn, over: make(chan struct{})})
	return &Server{Options: o, late: late, link: l}
}

// A Take waits for its budget, and for the grace too where an answer is there that has
// not been read, but never until its caller leaves: a share of the time is kept for the answer.
func TestPatience(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		budget, caller time.Duration
		unread         bool
		want           time.Duration
	}{
		"a server that hangs":             {budget: 20 * ms, want: 20 * ms},
		"an answer lies there":            {budget: 20 * ms, unread: true, want: 40 * ms},
		"the grace is no longer than":     {budget: 250 * ms, unread: true, want: 270 * ms},
		"the grace of a short budget":     {budget: 5 * ms, unread: true, want: 10 * ms},
		"a caller who leaves early":       {budget: 20 * ms, caller: 8 * ms, want: 6 * ms},
		"early, an answer lies there":     {budget: 20 * ms, caller: 8 * ms, unread: true, want: 6 * ms},
		"a caller who leaves with it":     {budget: 20 * ms, caller: 20 * ms, want: 15 * ms},
		"a caller who leaves in between":  {budget: 20 * ms, caller: 27 * ms, unread: true, want: 22 * ms},
		"a caller who waits for a minute": {budget: 20 * ms, caller: time.Minute, want: 20 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := bubble(t, c.budget)
				time.Sleep(time.Second) // the reader has waited for long
				ctx := context.Background()
				if c.caller > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.caller)
					defer cancel()
				}
				began := time.Now()
				p := NewPatience(ctx, s.late, began, c.budget)
				defer p.End()
				p.Asks(s)
				if c.unread {
					s.link.current.Load().conn.waiting.Store(false)
				}
				if d, _ := p.Deadline(); d.Sub(began) != min(c.budget, c.want) {
					t.Errorf("scripts hear a deadline after %v", d.Sub(began))
				}
				<-p.Done()
				if took := time.Since(began); took != c.want || !errors.Is(p.Err(), context.DeadlineExceeded) {
					t.Errorf("it ended after %v with %v, want %v", took, p.Err(), c.want)
				}
				if extended := c.want > c.budget; s.late.since(began, time.Now()) != extended {
					t.Errorf("that this process was late is noted: %v", !extended)
				}
			})
		})
	}
}

// Who comes too late to look has slept, and gives the server the time that it had less.
func TestOversleptDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bubble(t, 20*time.Millisecond)
		time.Sleep(time.Second)
		due := time.Now()
		last := due.Add(20 * time.Millisecond)
		for after, want := range map[time.Duration]time.Duration{
			0: 0, 2 * time.Millisecond: 0, 5 * time.Millisecond: 5 * time.Millisecond,
			15 * time.Millisecond: 5 * time.Millisecond, 25 * time.Millisecond: 0,
		} {
			if got := s.grace(due, last, due.Add(after)); got != want {
				t.Errorf("%v too late: %v more, want %v", after, got, want)
			}
		}
	})
}

func TestPatienceEndsWithItsCaller(t *testing.T) {
	s := bubble(t, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	p := NewPatience(ctx, s.late, time.Now(), time.Hour)
	defer p.End()
	if p.Err() != nil {
		t.Fatal(p.Err())
	}
	cancel()
	<-p.Done()
	if !errors.Is(p.Err(), context.Canceled) {
		t.Errorf("it ended with %v", p.Err())
	}
}

// The timer of a Take that is over serves the next one, and rings for that alone.
func TestAlarmsServeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 20 * time.Millisecond
		late := bubble(t, budget).late
		first := NewPatience(t.Context(), late, time.Now(), budget)
		first.End()
		began := time.Now()
		second := NewPatience(t.Context(), late, began, 2*budget)
		<-second.Done()
		if took := time.Since(began); took != 2*budget || !errors.Is(second.Err(), context.DeadlineExceeded) {
			t.Errorf("the second ended after %v with %v", took, second.Err())
		}
		second.End() // its alarm has rung
		if !errors.Is(first.Err(), context.Canceled) {
			t.Errorf("the first, which was over, ended with %v", first.Err())
		}
		third := NewPatience(t.Context(), late, time.Now(), budget)
		defer third.End()
		if third.alarm == second.alarm {
			t.Error("an alarm that has rung is used again")
		}
	})
}

// Who asks for the two ends of a Patience in place of its Done hears of both, and costs no
// context; Done, asked for later, agrees.
func TestEndsOfPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 20 * time.Millisecond
		late := bubble(t, budget).late
		closed := func(c <-chan struct{}) bool {
			select {
			case <-c:
				return true
			default:
				return false
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		p := NewPatience(ctx, late, time.Now(), budget)
		caller, own := p.Ends()
		if closed(caller) || closed(own) {
			t.Error("an end before its time")
		}
		cancel()
		if !closed(caller) || closed(own) || !errors.Is(p.Err(), context.Canceled) || !closed(p.Done()) {
			t.Errorf("the caller has left, and it ends with %v", p.Err())
		}
		p.End()
		p = NewPatience(t.Context(), late, time.Now(), budget)
		defer p.End()
		if caller, own = p.Ends(); closed(own) {
			t.Error("the alarm of one that was over rings for the next")
		}
		time.Sleep(budget)
		synctest.Wait()
		if closed(caller) || !closed(own) || !errors.Is(p.Err(), context.DeadlineExceeded) || !closed(p.Done()) {
			t.Errorf("the budget is over, and it ends with %v", p.Err())
		}
	})
}

func TestLateness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLateness(20 * time.Millisecond)
		defer l.Close()
		began := time.Now()
		time.Sleep(10 * time.Millisecond)
		now := time.Now()
		if l.late(now.Add(-2*time.Millisecond), now) || l.since(began, now) {
			t.Error("two milliseconds are noise")
		}
		if !l.late(now.Add(-3*time.Millisecond), now) || !l.since(began, now) || l.since(now.Add(1), now.Add(1)) {
			t.Error("three milliseconds are not known, or for ever")
		}
		// The meter runs while it is told to, finds that all is well, and sees what has
		// not woken yet.
		began = time.Now().Add(1)
		for range 10 {
			l.watch(time.Now())
			time.Sleep(500 * time.Millisecond)
		}
		due := l.epoch.Add(time.Duration(l.due.Load()))
		if l.since(began, time.Now()) || !l.since(began, due.Add(3*time.Millisecond)) {
			t.Errorf("the meter, which is due at %v, says otherwise", due)
		}
		time.Sleep(2 * meterFor)
		if l.due.Load() != 0 {
			t.Error("the meter runs for ever")
		}
		if long := NewLateness(240 * time.Millisecond); long.threshold != 30*time.Millisecond {
			t.Errorf("the threshold of a long budget is %v", long.threshold)
		} else {
			long.Close()
		}
	})
}

// A process that was stopped knows so when it goes on, and for a moment after.
func TestStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLateness(20 * time.Millisecond)
		defer l.Close()
		time.Sleep(10 * time.Second)
		now := time.Now()
		if l.Woke(now) || l.Woke(now.Add(standstill-2*beatEvery)) {
			t.Error("a process that runs has woken")
		}
		if !l.Woke(now.Add(standstill + beatEvery)) {
			t.Error("nothing is known of a standstill before its first beat")
		}
		l.beat.Store(l.at(now.Add(-7 * time.Second))) // as if it had been stopped
		l.onBeat()
		if !l.Woke(now.Add(doubtFor - 1)) {
			t.Error("nothing is known of a standstill after its first beat")
		}
		time.Sleep(doubtFor)
		if l.Woke(time.Now()) {
			t.Error("a standstill is remembered for ever")
		}
	})
}

// After a standstill a Take asks nothing for a caller who turns out to be gone.
func TestNothingIsSentForWhoIsGone(t *testing.T) {
	late := NewLateness(time.Minute)
	defer late.Close()
	p := NewPatience(t.Context(), late, time.Now(), time.Minute)
	defer p.End()
	if !p.CallerThere() {
		t.Errorf("a caller who is there: %v", p.Err())
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := NewPatience(ctx, late, time.Now(), time.Minute)
	defer gone.End()
	cancel()
	if gone.CallerThere() {
		t.Error("a caller who is gone")
	}
}

// What is over by the clock is not sent, even if no timer has said so yet.
func TestNothingIsSentAfterItsDeadline(t *testing.T) {
	s := openOne(t, Options{Addr: testserver.Redis(t, testserver.RedisConfig{}).Addr})
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := s.Stats(time.Now()).Calls
	if _, err := s.Enter(overdue{t.Context()}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("entering after the deadline: %v", err)
	}
	if calls := s.Stats(time.Now()).Calls; calls != before {
		t.Errorf("%d calls", calls-before)
	}
}

// overdue is a context whose deadline has passed without its timer having fired.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// What a server has said and nobody has read is seen without taking it away.
func TestUnreadBytes(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	raw, err := net.Dial("tcp", server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	conn := watchConn(raw, func() {})
	defer conn.Close()
	conn.waiting.Store(true)
	later := time.Now().Add(time.Minute) // nothing was read lately
	if conn.answering(later) {
		t.Error("bytes that nobody has sent")
	}
	if _, err := conn.Write([]byte(firstQuestion)); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the answer lies there", func() bool { return conn.answering(later) })
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	if err != nil || string(answer[:n]) != "+PONG\r\n" {
		t.Errorf("%q %v", answer[:n], err)
	}
	if !conn.answering(time.Now()) {
		t.Error("what was read this moment is on its way")
	}
	conn.waiting.Store(true)
	if conn.answering(later) {
		t.Error("what was read long ago is no answer")
	}
}
