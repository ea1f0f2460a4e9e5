package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/bench/internal/h2load"
	"github.com/headgate/headgate/bench/internal/server"
)

// method is the one that Envoy calls.
const method = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// measurement is one workload of one system in one round.
type measurement struct {
	rate          float64 // requests per second
	p50, p99      time.Duration
	server, redis float64 // CPU microseconds per request
	commands      float64 // Redis commands per request
	reads         float64 // reads of Redis per request
	bytesPerKey   float64 // Redis memory
	undecided     float64 // limits per request that passed because Redis did not answer within the budget
	hasRedis      bool
}

// snapshot is what counts at one instant.
type snapshot struct {
	server, redis time.Duration
	counters      server.Counters
	err           error
}

func (i *instance) snapshot() (s snapshot) {
	s.server, s.err = i.server.CPU()
	if i.redis == nil || s.err != nil {
		return s
	}
	if s.redis, s.err = i.redis.CPU(); s.err == nil {
		s.counters, s.err = i.redis.Counters()
	}
	return s
}

// measure loads a running system with one workload.
func measure(s settings, sys system, i *instance, w workload) (measurement, error) {
	messages, err := w.messages(s.keys)
	if err != nil {
		return measurement{}, err
	}
	if i.redis != nil {
		if _, err := i.redis.Ask("FLUSHALL"); err != nil {
			return measurement{}, err
		}
	}
	empty, failedOpen := i.snapshot(), failOpens(i.ops)
	var before, after snapshot
	profiled := make(chan error, 1)
	result, err := h2load.Run(h2load.Options{
		Network: "tcp", Addr: i.addr, Path: method, Messages: messages,
		Connections: s.connections, Streams: s.streams,
		Passes: w.passes(), WarmUp: s.warmUp, MaxWarmUp: s.warmUp + 20*time.Second, Measure: s.measure,
		Begin: func() {
			go func() { profiled <- profile(s, sys, i, w) }()
			before = i.snapshot()
		},
		End: func() { after = i.snapshot() },
	})
	if err != nil {
		return measurement{}, fmt.Errorf("%w\n%s", err, i.server.Output.Bytes())
	}
	undecided := failOpens(i.ops) - failedOpen
	if err := errors.Join(<-profiled, empty.err, before.err, after.err, checkCodes(w, result, int64(undecided))); err != nil {
		return measurement{}, err
	}
	m := measurement{
		rate: float64(result.Answers) / result.Elapsed.Seconds(),
		p50:  result.Latencies.Quantile(0.50), p99: result.Latencies.Quantile(0.99),
	}
	per := func(total float64) float64 { return total / float64(result.Answers) }
	m.server = per(micros(after.server - before.server))
	m.undecided = per(undecided)
	if i.redis != nil {
		m.hasRedis = true
		m.redis = per(micros(after.redis - before.redis))
		m.commands = per(float64(after.counters.Commands - before.counters.Commands))
		m.reads = per(float64(after.counters.Reads - before.counters.Reads))
		m.bytesPerKey = float64(after.counters.Memory-empty.counters.Memory) / float64(max(after.counters.Keys, 1))
	}
	return m, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// checkCodes reports answers that the workload does not expect, but for limits
// that were not decided: then something else was measured than the report would
// say.
func checkCodes(w workload, r *h2load.Result, undecided int64) error {
	if r.Answers == 0 {
		return errors.New("no answers")
	}
	const ok, overLimit = 1, 2
	var answered int64
	for _, n := range r.Codes {
		answered += n
	}
	if !w.over && r.Codes[ok] != answered {
		return fmt.Errorf("%d of %d answers were not OK", answered-r.Codes[ok], answered)
	}
	if w.over && r.Codes[overLimit] < answered*99/100-undecided {
		return fmt.Errorf("only %d of %d answers were OVER_LIMIT", r.Codes[overLimit], answered)
	}
	return nil
}

// failOpens returns how many limits Headgate has allowed because the store did
// not decide in time; 0 for others.
func failOpens(ops string) float64 {
	if ops == "" {
		return 0
	}
	response, err := http.Get("http://" + ops + "/metrics")
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	var sum float64
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) == 2 && strings.HasPrefix(fields[0], "headgate_failopen_total") {
			n, _ := strconv.ParseFloat(fields[1], 64)
			sum += n
		}
	}
	return sum
}

// profile keeps a CPU profile of Headgate if one is asked for.
func profile(s settings, sys system, i *instance, w workload) error {
	if s.profile == "" || i.ops == "" {
		return nil
	}
	seconds := max(1, int(s.measure.Seconds()))
	response, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", i.ops, seconds))
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer response.Body.Close()
	if err := os.MkdirAll(s.profile, 0o755); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	name := strings.NewReplacer(" ", "-", ",", "").Replace(sys.name + "-" + w.String())
	file, err := os.Create(filepath.Join(s.profile, name+".pprof"))
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	_, err = io.Copy(file, response.Body)
	return errors.Join(err, file.Close())
}
