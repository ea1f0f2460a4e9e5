package telemetry

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/trace"
)

// A call that was timed stands for those before it that were not, wherever they were
// counted.
func TestTimedCallsStandForOthers(t *testing.T) {
	m := New(Build{}, Options{})
	for n := range 1600 {
		took := headgate.NotTimed
		if n%16 == 15 {
			took = 3 * time.Microsecond
		}
		m.Decided(&headgate.Request{}, &headgate.Response{}, took)
	}
	total := m.stripes.total()
	var calls, waiting uint64
	for _, n := range total.cells {
		calls += n
	}
	// Those of a stripe after its last timed one; the race detector has the pool forget some.
	for i := range m.stripes.all {
		waiting += m.stripes.all[i].untimed
	}
	traced := headgate.Request{Origin: headgate.Origin{Trace: trace.Parent{ID: [16]byte{1}, Sampled: true}}}
	before := calls
	m.Decided(&traced, &headgate.Response{}, time.Second)
	calls = 0
	for _, n := range m.stripes.total().cells {
		calls += n
	}
	if calls != before+1 {
		t.Errorf("a call with a trace stands for %d", calls-before)
	}
	calls = before
	if calls+waiting != 1600 || total.took != time.Duration(calls)*3*time.Microsecond {
		t.Errorf("%d of 1600 calls took %v together, and %d wait for one that is timed", calls, total.took, waiting)
	}
}
