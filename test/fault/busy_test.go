package fault

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store/redisstore"
)

const (
	// busyLoops are processes that do nothing but take processor time: with those who
	// ask and the server they make a load of about 10.
	busyLoops = 8
	// busyFor is how long they do, with -long.
	busyFor = 20 * time.Second
	// busyBudget is the default of --store-budget.
	busyBudget = 20 * time.Millisecond
)

// startBusyLoops takes processor time from everybody else until the returned function
// is called, or each loop has had more of it than it should.
func startBusyLoops(t *testing.T, length time.Duration) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var loops []*exec.Cmd
	for range busyLoops {
		// The bound is seconds of processor time: nothing goes on without the test.
		loop := exec.CommandContext(ctx, "sh", "-c", fmt.Sprintf("ulimit -t %d; while :; do :; done", int(length/time.Second)+5))
		if err := loop.Start(); err != nil {
			cancel()
			t.Fatal(err)
		}
		loops = append(loops, loop)
	}
	return func() {
		cancel()
		for _, loop := range loops {
			// It was killed, which Wait says.
			if err := loop.Wait(); err == nil {
				t.Error("a busy loop ended by itself")
			}
		}
	}
}

// A machine that is busy with other things, a store that is well: what is decided by
// failure mode then is noise, and the less of it the better. Nothing is demanded of its
// share, which is the machine's; the row of the table says what it was.
//
//promise:busy-node-opens-no-breaker
func TestBusyMachine(t *testing.T) {
	length := time.Second
	if *long {
		length = busyFor
	}
	server := testserver.Redis(t, testserver.RedisConfig{})
	scenario{
		name: "load of 10, the store is well", mode: failOpen, tries: 1, gentle: true,
		options: redisstore.Options{Addr: server.Addr, Budget: busyBudget},
		fault: func(f *faulted) time.Time {
			stop := startBusyLoops(t, length)
			defer stop()
			pause(length)
			return time.Now()
		},
		after: func(f *faulted) {
			var failures, opened uint64
			for _, shared := range f.opened {
				for _, shard := range shared.Stats().Shards {
					failures, opened = failures+shard.Failures, opened+shard.Opened
				}
			}
			f.row.notes = append(f.row.notes, fmt.Sprintf("%.2f %% degraded (%s); %d failed calls, %d openings of breakers",
				100*float64(f.row.degraded())/float64(max(f.row.decisions(), 1)), f.heard.counts(), failures, opened))
		},
	}.run(t)
}
