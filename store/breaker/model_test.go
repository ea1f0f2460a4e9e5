package breaker

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is the same machine without any concern for speed: it keeps every call.
type model struct {
	options Options
	state   State
	changes uint64
	calls   []modelCall
	row     int
	// failedAt is when the last failure of the row ended; an hour before all if there is none.
	failedAt time.Duration
	pause    time.Duration
	until    time.Duration
	opened   uint64
}

type modelCall struct {
	slot int64
	bad  bool
}

func (m *model) enter(s State) { m.state, m.changes = s, m.changes+1 }

func (m *model) allow(now time.Duration) bool {
	if m.state == Closed {
		return true
	}
	if now < m.until {
		return false
	}
	m.until = now + m.pause
	m.enter(HalfOpen)
	return true
}

func (m *model) open(now time.Duration) {
	if m.pause == 0 {
		m.pause = m.options.Pause
	} else {
		m.pause = min(2*m.pause, m.options.MaxPause)
	}
	m.until = now + m.pause
	m.opened++
	m.enter(Open)
}

func (m *model) done(change uint64, now time.Duration, o Outcome, took time.Duration) {
	if change != m.changes {
		return
	}
	bad := o == Failure || m.options.Slow > 0 && took >= m.options.Slow
	switch {
	case m.state == HalfOpen && o == Ignored:
		m.until = now
		m.enter(HalfOpen)
	case m.state == HalfOpen && bad:
		m.open(now)
	case m.state == HalfOpen:
		m.calls, m.row, m.pause, m.failedAt = nil, 0, 0, -time.Hour
		m.enter(Closed)
	case o != Ignored:
		m.count(now, o, bad, took)
	}
}

func (m *model) count(now time.Duration, o Outcome, bad bool, took time.Duration) {
	slot := int64(now / (m.options.Window / slots))
	m.calls = append(m.calls, modelCall{slot, bad})
	switch {
	case o != Failure:
		m.row = 0
	case now-took >= m.failedAt:
		m.row, m.failedAt = m.row+1, now
	}
	total, badOnes := m.recent(slot)
	if m.row >= m.options.Failures ||
		bad && total >= m.options.MinCalls && float64(badOnes) >= m.options.Ratio*float64(total) {
		m.open(now)
	}
}

func (m *model) recent(slot int64) (total, bad int) {
	for _, c := range m.calls {
		if c.slot > slot-slots {
			total++
			if c.bad {
				bad++
			}
		}
	}
	return total, bad
}

func (m *model) stateAt(now time.Duration) State {
	if m.state == Open && now >= m.until {
		return HalfOpen
	}
	return m.state
}

// The breaker does what the model does, for calls that overlap in any way.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		options := Options{
			Failures: rapid.IntRange(1, 6).Draw(t, "failures"),
			Ratio:    rapid.SampledFrom([]float64{0.1, 0.5, 0.9, 1}).Draw(t, "ratio"),
			Window:   rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second}).Draw(t, "window"),
			MinCalls: rapid.IntRange(1, 10).Draw(t, "minCalls"),
			Slow:     rapid.SampledFrom([]time.Duration{0, 100 * time.Millisecond}).Draw(t, "slow"),
			Pause:    time.Second,
			MaxPause: rapid.SampledFrom([]time.Duration{time.Second, 4 * time.Second, 6 * time.Second}).Draw(t, "maxPause"),
			Jitter:   noJitter,
		}
		b, m := New(options), &model{options: options, failedAt: -time.Hour}
		type flight struct {
			permit Permit
			change uint64
		}
		var flights []flight
		now := time.Duration(0)
		b.Allow(t0)
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) {
				now += time.Duration(rapid.IntRange(0, 1200).Draw(t, "ms")) * time.Millisecond
			},
			"allow": func(t *rapid.T) {
				p, ok := b.Allow(after(now))
				if want := m.allow(now); ok != want {
					t.Fatalf("at %v: allowed %v, the model says %v", now, ok, want)
				}
				if ok {
					flights = append(flights, flight{p, m.changes})
				}
			},
			"done": func(t *rapid.T) {
				if len(flights) == 0 {
					t.Skip("no call is out")
				}
				i := rapid.IntRange(0, len(flights)-1).Draw(t, "flight")
				f := flights[i]
				flights = append(flights[:i], flights[i+1:]...)
				o := Outcome(rapid.IntRange(0, 2).Draw(t, "outcome"))
				took := time.Duration(rapid.IntRange(0, 200).Draw(t, "took")) * time.Millisecond
				b.Done(f.permit, after(now), o, took)
				m.done(f.change, now, o, took)
			},
			"": func(t *rapid.T) {
				stats := b.Stats(after(now))
				if want := m.stateAt(now); stats.State != want {
					t.Fatalf("at %v the state is %v, the model says %v", now, stats.State, want)
				}
				if stats.Opened != m.opened {
					t.Fatalf("at %v it has opened %d times, the model %d", now, stats.Opened, m.opened)
				}
				if stats.State == Closed {
					calls, bad := m.recent(int64(now / (options.Window / slots)))
					if stats.Calls != int64(calls) || stats.Bad != int64(bad) {
						t.Fatalf("at %v it has %d calls, %d of them bad; the model %d and %d", now, stats.Calls, stats.Bad, calls, bad)
					}
				}
			},
		})
	})
}

// Slots of any age, and instants before the first, are counted as a plain list
// of calls says, as long as time goes forward.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const width = 100
		w := window{width: width}
		m := model{options: Options{Window: slots * width}}
		at := rapid.Int64Range(-5000, 5000).Draw(t, "start")
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			at += rapid.SampledFrom([]int64{0, 1, 10, 99, 100, 450, 1000, 3000}).Draw(t, "wait")
			bad := rapid.Bool().Draw(t, "bad")
			w.add(at, bad)
			slot := at / width
			if at%width < 0 {
				slot--
			}
			m.calls = append(m.calls, modelCall{slot, bad})
			calls, badOnes := w.sum(at)
			if total, wantBad := m.recent(slot); calls != int64(total) || badOnes != int64(wantBad) {
				t.Fatalf("at %d: %d calls, %d bad, want %d, %d", at, calls, badOnes, total, wantBad)
			}
		}
	})
}

func TestWindowBounds(t *testing.T) {
	w := window{width: 1}
	for range fullSlot + 10 {
		w.add(5, true)
	}
	if calls, bad := w.sum(5); calls != fullSlot || bad != fullSlot {
		t.Errorf("a full slot counts %d calls, %d bad, want %d", calls, bad, fullSlot)
	}
	if calls, _ := w.sum(15); calls != 0 {
		t.Errorf("%d calls of a window that has ended", calls)
	}
	w.add(25, false)
	w.add(15, true) // a caller who comes late
	if calls, bad := w.sum(25); calls != 1 || bad != 0 {
		t.Errorf("a late call is counted in a later window: %d, %d", calls, bad)
	}
	w.add(25-1000, false) // the clock has stepped back
	if calls, _ := w.sum(25 - 1000); calls != 1 {
		t.Errorf("%d calls after the clock has stepped back", calls)
	}
}
