// Command rlsload measures what one rate limit decision over gRPC costs: CPU
// microseconds of the server and of Redis for each request, requests per
// second and latencies, for several servers in one run.
//
// It starts everything itself, on loopback addresses of its own, one system
// after the other, and stops it again. Linux only: processor times come from
// /proc.
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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/headgate/headgate/bench/internal/figures"
)

// settings are the flags.
type settings struct {
	headgate    string
	redis       string
	redisUnix   bool
	ratelimit   string
	gubernator  string
	limitador   string
	scale       string
	check       bool
	full        bool
	figures     string
	only        string
	profile     string
	rounds      int
	connections int
	streams     int
	keys        int
	warmUp      time.Duration
	measure     time.Duration
}

func parseFlags() settings {
	var s settings
	flag.StringVar(&s.headgate, "headgate", "", "headgate `binary`; required")
	flag.StringVar(&s.redis, "redis", "redis-server", "redis-server `binary`")
	flag.BoolVar(&s.redisUnix, "redis-unix", false, "reach Redis by a unix socket in place of loopback TCP")
	flag.StringVar(&s.ratelimit, "ratelimit", os.Getenv("RATELIMIT_BINARY"), "envoyproxy/ratelimit `binary`; without it that system is left out (default $RATELIMIT_BINARY)")
	flag.StringVar(&s.gubernator, "gubernator", os.Getenv("GUBERNATOR_BINARY"), "gubernator `binary`; without it that system is left out (default $GUBERNATOR_BINARY)")
	flag.StringVar(&s.limitador, "limitador", os.Getenv("LIMITADOR_BINARY"), "limitador-server `binary`; without it that system is left out (default $LIMITADOR_BINARY)")
	flag.StringVar(&s.scale, "scale", "", "in place of the comparison, measure Headgate against the number of nodes or connections: `axis`")
	flag.BoolVar(&s.check, "check", false, "in place of the comparison, measure the check API (JSON over HTTP/1.1) beside gRPC")
	flag.BoolVar(&s.full, "full", false, "with -scale, measure all sizes and not a few")
	flag.StringVar(&s.figures, "figures", "", "add the figures to this `file`, for benchpage")
	flag.StringVar(&s.only, "only", "", "measure only systems whose name contains this `text`")
	flag.StringVar(&s.profile, "profile", "", "keep CPU profiles of Headgate, taken while measuring, in this `folder`")
	flag.IntVar(&s.rounds, "rounds", 2, "how often to measure everything but set rates, which are measured once")
	flag.IntVar(&s.connections, "connections", 4, "connections to the server")
	flag.IntVar(&s.streams, "streams", 16, "calls under way on each connection")
	flag.IntVar(&s.keys, "keys", 100_000, "different values of each descriptor")
	flag.DurationVar(&s.warmUp, "warmup", time.Second, "least time to warm up; it takes at least one request for each key")
	flag.DurationVar(&s.measure, "measure", 3*time.Second, "time to measure each workload of each system in each round")
	flag.Parse()
	return s
}

func main() {
	// A child is told of the end of the thread that started it, and so must not
	// be started from one that the runtime may end.
	runtime.LockOSThread()
	if len(os.Args) == 3 && os.Args[1] == constantCommand {
		exitOn(serveConstant(os.Args[2]))
		return
	}
	s := parseFlags()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	exitOn(measureAll(ctx, s))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "rlsload:", err)
		os.Exit(1)
	}
}

// measureAll measures every workload of every system, in rounds so that what
// disturbs the machine for a while does not fall on one system alone.
func measureAll(ctx context.Context, s settings) error {
	if s.headgate == "" {
		return errors.New("-headgate is missing; hint: go build -o headgate ./cmd/headgate, and name it")
	}
	if _, err := exec.LookPath(s.redis); err != nil {
		return fmt.Errorf("find redis-server: %w; hint: apt-get install redis-server", err)
	}
	if s.scale != "" && len(scaleSystems(s.scale, s.full)) == 0 {
		return fmt.Errorf("-scale %s is neither %s nor %s", s.scale, axisNodes, axisConnections)
	}
	results := newResults()
	for round := range s.rounds {
		for _, sys := range systemsFor(s) {
			if !strings.Contains(sys.name, s.only) {
				continue
			}
			if round > 0 {
				sys.workloads = slices.DeleteFunc(slices.Clone(sys.workloads), func(w workload) bool { return w.isPaced() })
			}
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, s.rounds, sys.name)
			if err := measureSystem(ctx, s, sys, results); err != nil {
				// What cannot be measured must not take the rest with it; its
				// rows say so.
				fmt.Fprintf(os.Stderr, "rlsload: %s: %v\n", sys.name, err)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	if err := results.print(os.Stdout); err != nil {
		return err
	}
	return figures.Append(s.figures, results.rows())
}

// measureSystem starts a system, measures its workloads and stops it.
func measureSystem(ctx context.Context, s settings, sys system, results *results) (err error) {
	dir, err := os.MkdirTemp("", "rlsload")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	running, err := sys.start(s, dir)
	defer func() { err = errors.Join(err, running.stop()) }()
	if err != nil {
		for _, w := range sys.workloads {
			results.miss(cellOf(sys, w), err)
		}
		return err
	}
	for _, w := range sys.workloads {
		if err := ctx.Err(); err != nil {
			return err
		}
		asked, failed := results.withRate(cellOf(sys, w))
		var m measurement
		if failed == nil {
			m, failed = measure(s, sys, running, asked)
		}
		if failed != nil {
			results.miss(cellOf(sys, w), failed)
			err = errors.Join(err, fmt.Errorf("%s: %w", w, failed))
			continue
		}
		results.add(cellOf(sys, w), m)
	}
	return err
}
