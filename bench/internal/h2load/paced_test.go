package h2load

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

func pacedOptions(t *testing.T, rate int) PacedOptions {
	o := options(serve(t), messages(t, "ok", "over"))
	return PacedOptions{Options: o, Rate: rate, Lead: 50 * time.Millisecond}
}

func TestPacedAsksWhatIsDue(t *testing.T) {
	const rate = 500
	o := pacedOptions(t, rate)
	o.Streams = 1000
	r, err := RunPaced(o)
	if err != nil {
		t.Fatal(err)
	}
	measured := r.Codes[1] + r.Codes[2]
	if want := int64(rate * o.Measure / time.Second); measured+r.Unsent != want || r.Codes[0]+r.Codes[3] != 0 {
		t.Errorf("%d answers and %d unsent with codes %v, want %d in all", measured, r.Unsent, r.Codes, want)
	}
	if r.Codes[1] == 0 || r.Codes[2] == 0 {
		t.Errorf("codes %v, want both", r.Codes)
	}
	if r.Latencies.Quantile(1) < r.Late.Quantile(0) {
		t.Error("an answer came before its request was sent")
	}
}

// slow answers nothing until release is closed.
type slow struct {
	pb.UnimplementedRateLimitServiceServer
	asked   atomic.Int64
	release chan struct{}
}

func (s *slow) ShouldRateLimit(context.Context, *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	s.asked.Add(1)
	<-s.release
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}, nil
}

// TestPacedCountsWaiting: a server that answers nothing for the whole measured
// time has kept every request waiting since it was due, those too that this
// client could not send.
func TestPacedCountsWaiting(t *testing.T) {
	s := &slow{release: make(chan struct{})}
	const rate = 1000
	o := PacedOptions{Options: options(serveOn(t, s), messages(t, "ok")), Rate: rate}
	o.Connections, o.Streams = 1, 4
	o.End = func() { close(s.release) }
	r, err := RunPaced(o)
	if err != nil {
		t.Fatal(err)
	}
	due := int64(rate * o.Measure / time.Second)
	measured := r.Codes[1]
	if measured+r.Unsent != due {
		t.Errorf("%d answers and %d unsent, want %d in all", measured, r.Unsent, due)
	}
	if r.Unsent == 0 || r.Answers > measured {
		t.Errorf("%d unsent, %d answers in time: the server held back all", r.Unsent, r.Answers)
	}
	// The first was due at the beginning.
	if got := r.Latencies.Quantile(1); got < o.Measure {
		t.Errorf("the slowest took %v, want at least the %v that the server kept it", got, o.Measure)
	}
}

func TestPacedReportsErrors(t *testing.T) {
	o := PacedOptions{Options: options(serve(t), messages(t, "nowhere")), Rate: 100}
	if r, err := RunPaced(o); err == nil {
		t.Errorf("a server that answers with errors was measured: %+v", r.Answers)
	}
	if _, err := RunPaced(PacedOptions{Options: o.Options}); err == nil {
		t.Error("no rate is no error")
	}
}

func TestConnectionsAreSpread(t *testing.T) {
	o := Options{Addr: "a", Others: []string{"b", "c"}}
	for i, want := range []string{"a", "b", "c", "a"} {
		if got := o.addrOf(i); got != want {
			t.Errorf("connection %d goes to %s, want %s", i, got, want)
		}
	}
}
