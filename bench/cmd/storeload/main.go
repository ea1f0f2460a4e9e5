// Command storeload measures what a decision costs when its counter is in
// Redis, and no transport is in the way: many callers in one process ask a
// store, as the engine does, and the processor times of this process and of
// Redis are divided by the decisions.
//
// It starts its own Redis on a loopback address and stops it again. Linux only:
// processor times come from /proc and getrusage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/headgate/headgate/bench/internal/figures"
	"github.com/headgate/headgate/bench/internal/server"
)

// settings are the flags.
type settings struct {
	redis   string
	only    string
	scale   string
	full    bool
	figures string
	rounds  int
	callers int
	keys    int
	pace    int
	measure time.Duration
}

// defaultKeys is the number of different keys, where neither a flag nor the
// workload says another.
const defaultKeys = 100_000

func parseFlags() settings {
	var s settings
	flag.StringVar(&s.redis, "redis", "redis-server", "redis-server `binary`")
	flag.StringVar(&s.only, "only", "", "measure only rows whose name contains this `text`")
	flag.StringVar(&s.scale, "scale", "", "in place of the comparison, measure against the number of keys, limits or callers: `axis`")
	flag.BoolVar(&s.full, "full", false, "with -scale, measure all sizes and not a few")
	flag.StringVar(&s.figures, "figures", "", "add the figures to this `file`, for benchpage")
	flag.IntVar(&s.rounds, "rounds", 2, "how often to measure everything")
	flag.IntVar(&s.callers, "callers", 256, "callers that ask side by side")
	flag.IntVar(&s.keys, "keys", defaultKeys, "different keys of the uniform workloads")
	flag.IntVar(&s.pace, "pace", 5000, "decisions per second of the workloads at moderate load")
	flag.DurationVar(&s.measure, "measure", 3*time.Second, "time to measure each row in each round")
	flag.Parse()
	return s
}

func main() {
	// A child is told of the end of the thread that started it, and so must not
	// be started from one that the runtime may end.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, parseFlags()); err != nil {
		fmt.Fprintln(os.Stderr, "storeload:", err)
		os.Exit(1)
	}
}

// run measures every row in rounds, so that what disturbs the machine for a
// while does not fall on one row alone.
func run(ctx context.Context, s settings) (err error) {
	if _, err := exec.LookPath(s.redis); err != nil {
		return fmt.Errorf("find redis-server: %w; hint: apt-get install redis-server", err)
	}
	dir, err := os.MkdirTemp("", "storeload")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	redis, err := server.StartRedis(s.redis, dir, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.Stop()) }()
	measured := rows
	if s.scale != "" {
		if measured, err = scaleRows(s.scale, s.full); err != nil {
			return err
		}
	}
	results := &results{rows: measured, all: make(map[string][]measurement), missed: make(map[string]error)}
	for round := range s.rounds {
		for _, r := range measured {
			if !strings.Contains(r.String(), s.only) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, s.rounds, r)
			m, err := measure(ctx, s, redis, r)
			if err != nil {
				// What cannot be measured must not take the rest with it; its
				// row says so.
				fmt.Fprintf(os.Stderr, "storeload: %s: %v\n", r, err)
				results.missed[r.String()] = err
				continue
			}
			results.all[r.String()] = append(results.all[r.String()], m)
		}
	}
	if err := results.print(os.Stdout); err != nil {
		return err
	}
	return figures.Append(s.figures, results.figures(s.scale))
}
