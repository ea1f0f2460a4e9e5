package conn

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/store/breaker"
)

// What the end of a call says about the server, and what only about this process
// or its caller.
func TestOutcomeOf(t *testing.T) {
	late := NewLateness(20 * time.Millisecond)
	defer late.Close()
	s := &Server{Options: &Options{Breaker: breaker.Options{Slow: 10 * time.Millisecond}}, late: late}
	began := time.Now()
	trip := Trip{Began: began, deadline: began.Add(20 * time.Millisecond)}
	for _, test := range []struct {
		name  string
		err   error
		after time.Duration
		want  breaker.Outcome
	}{
		{"an answer", nil, time.Millisecond, breaker.Success},
		{"a slow answer", nil, 19 * time.Millisecond, breaker.Success},
		{"a broken connection", errLost, time.Millisecond, breaker.Failure},
		{"a full memory", errors.New("OOM"), time.Millisecond, breaker.Failure},
		{"a caller that left early", context.Canceled, 9 * time.Millisecond, breaker.Ignored},
		{"no answer in time", context.DeadlineExceeded, 21 * time.Millisecond, breaker.Failure},
		{"no processor in time", context.DeadlineExceeded, 24 * time.Millisecond, breaker.Ignored},
	} {
		late.seen.Store(0)
		if got := s.outcomeOf(trip, test.err, began.Add(test.after)); got != test.want {
			t.Errorf("%s: outcome %d, want %d", test.name, got, test.want)
		}
	}
	if n := s.stats.starved.Load(); n != 1 {
		t.Errorf("%d timeouts are put down to this process, want 1", n)
	}
	late.seen.Store(0)
	trip.deadline = time.Time{}
	if got := s.outcomeOf(trip, context.DeadlineExceeded, began.Add(time.Second)); got != breaker.Failure {
		t.Errorf("a call without a deadline: outcome %d", got)
	}
}
