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

	"github.com/headgate/headgate/bench/internal/h1load"
	"github.com/headgate/headgate/bench/internal/h2load"
	"github.com/headgate/headgate/bench/internal/server"
)

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
	resident      float64 // bytes of the servers at the end
	// What follows is of workloads with a rate.
	p999   time.Duration
	late   time.Duration // p99 of how late this client sent
	unsent float64       // share of the requests that were due and not sent
}

// snapshot is what counts at one instant.
type snapshot struct {
	server, redis time.Duration
	resident      int64 // bytes of the servers
	counters      server.Counters
	undecided     float64 // limits that passed because the store did not decide in time
	err           error
}

func (i *instance) snapshot() (s snapshot) {
	for _, p := range i.servers {
		used, err := p.CPU()
		s.server, s.err = s.server+used, errors.Join(s.err, err)
		held, err := p.Resident()
		s.resident, s.err = s.resident+held, errors.Join(s.err, err)
	}
	for _, r := range i.redis {
		used, err := r.CPU()
		s.redis, s.err = s.redis+used, errors.Join(s.err, err)
		c, err := r.Counters()
		s.counters, s.err = s.counters.Plus(c), errors.Join(s.err, err)
	}
	s.undecided = i.failOpens()
	return s
}

// load is what a running server was asked, and what it answered.
type load struct {
	answers       int64
	elapsed       time.Duration
	codes         [4]int64
	latencies     h2load.Latencies
	late          h2load.Latencies
	unsent        int64
	before, after snapshot
}

// measure loads a running system with one workload.
func measure(s settings, sys system, i *instance, w workload) (measurement, error) {
	messages, err := sys.protocol.messages(w, s.keys)
	if err != nil {
		return measurement{}, err
	}
	if err := i.prepare(s, sys, w, messages); err != nil {
		return measurement{}, err
	}
	empty := i.snapshot()
	profiled := make(chan error, 1)
	l := &load{}
	o := i.options(s, sys, messages)
	o.Passes, o.WarmUp, o.MaxWarmUp = w.passes(), s.warmUp, s.warmUp+20*time.Second
	o.Begin = func() {
		go func() { profiled <- profile(s, sys, i, w) }()
		l.before = i.snapshot()
	}
	o.End = func() { l.after = i.snapshot() }
	if w.isPaced() {
		err = l.paced(o, w.rate)
	} else {
		err = l.closed(o, sys.protocol)
	}
	if err != nil {
		return measurement{}, fmt.Errorf("%w\n%s", err, i.output())
	}
	// Denials of those that were not decided at first may be missing later.
	undecided := int64(i.failOpens() - empty.undecided)
	if err := errors.Join(<-profiled, empty.err, l.before.err, l.after.err, l.check(w, undecided)); err != nil {
		return measurement{}, err
	}
	return l.measurement(i, empty), nil
}

// prepare empties Redis, but for workloads with a rate, which need all keys and
// get them quickly here.
func (i *instance) prepare(s settings, sys system, w workload, messages [][]byte) error {
	if !w.isPaced() {
		i.filled = false
		var errs []error
		for _, r := range i.redis {
			_, err := r.Ask("FLUSHALL SYNC")
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	if i.filled {
		return nil
	}
	o := i.options(s, sys, messages)
	o.Passes, o.MaxWarmUp, o.Measure = 1, 20*time.Second, time.Millisecond
	_, err := h2load.Run(o)
	i.filled = err == nil
	return err
}

func (i *instance) options(s settings, sys system, messages [][]byte) h2load.Options {
	o := h2load.Options{
		Network: "tcp", Addr: i.addrs[0], Others: i.addrs[1:], Path: sys.protocol.path, Code: sys.protocol.code, Messages: messages,
		Connections: s.connections, Streams: s.streams, Measure: s.measure,
	}
	if sys.axis != "" {
		o.Connections, o.Streams = sys.connections, sys.streams
	}
	if sys.protocol.http {
		o.Addr, o.Others = i.web[0], nil
	}
	return o
}

// closed asks again as soon as there is an answer.
func (l *load) closed(o h2load.Options, p protocol) error {
	ask := h2load.Run
	if p.http {
		ask = h1load.Run
	}
	r, err := ask(o)
	if err == nil {
		l.answers, l.elapsed, l.codes, l.latencies = r.Answers, r.Elapsed, r.Codes, r.Latencies
	}
	return err
}

// pacedStreams bounds what is under way on a connection while requests are due
// at set times: grpc-go and others allow about as many.
const pacedStreams = 100

// paced asks at a set rate.
func (l *load) paced(o h2load.Options, rate int) error {
	o.Streams = pacedStreams
	r, err := h2load.RunPaced(h2load.PacedOptions{Options: o, Rate: rate, Lead: o.Measure / 4})
	if err == nil {
		l.answers, l.elapsed, l.codes, l.latencies = r.Answers, r.Elapsed, r.Codes, r.Latencies
		l.late, l.unsent = r.Late, r.Unsent
	}
	return err
}

// due is how many requests were due in the measured time, of workloads with a rate.
func (l *load) due() (n int64) {
	for _, answered := range l.codes {
		n += answered
	}
	return n + l.unsent
}

// measurement divides by the answers what was used.
func (l *load) measurement(i *instance, empty snapshot) measurement {
	per := func(total float64) float64 { return total / float64(l.answers) }
	m := measurement{
		rate: float64(l.answers) / l.elapsed.Seconds(),
		p50:  l.latencies.Quantile(0.50), p99: l.latencies.Quantile(0.99), p999: l.latencies.Quantile(0.999),
		late: l.late.Quantile(0.99), unsent: float64(l.unsent) / float64(max(l.due(), 1)),
		server:    per(micros(l.after.server - l.before.server)),
		undecided: per(l.after.undecided - l.before.undecided),
		resident:  float64(l.after.resident),
	}
	if len(i.redis) > 0 {
		m.hasRedis = true
		m.redis = per(micros(l.after.redis - l.before.redis))
		m.commands = per(float64(l.after.counters.Commands - l.before.counters.Commands))
		m.reads = per(float64(l.after.counters.Reads - l.before.counters.Reads))
		m.bytesPerKey = float64(l.after.counters.Memory-empty.counters.Memory) / float64(max(l.after.counters.Keys, 1))
	}
	return m
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// check reports answers that the workload does not expect, but for limits
// that were not decided: then something else was measured than the report would
// say.
func (l *load) check(w workload, undecided int64) error {
	if l.answers == 0 {
		return errors.New("no answers")
	}
	const ok, overLimit = 1, 2
	var answered int64
	for _, n := range l.codes {
		answered += n
	}
	if answered == 0 {
		return errors.New("no request of the measured time was answered")
	}
	if !w.over && l.codes[ok] != answered {
		return fmt.Errorf("%d of %d answers were not OK", answered-l.codes[ok], answered)
	}
	if w.over && l.codes[overLimit] < answered*99/100-undecided {
		return fmt.Errorf("only %d of %d answers were OVER_LIMIT", l.codes[overLimit], answered)
	}
	return nil
}

// failOpens returns how many limits Headgate has allowed because the store did
// not decide in time; 0 for others.
func (i *instance) failOpens() (sum float64) {
	for _, ops := range i.ops {
		sum += failOpens(ops)
	}
	return sum
}

func failOpens(ops string) float64 {
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
	if s.profile == "" || len(i.ops) == 0 {
		return nil
	}
	seconds := max(1, int(s.measure.Seconds()))
	response, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", i.ops[0], seconds))
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer response.Body.Close()
	if err := os.MkdirAll(s.profile, 0o755); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	name := strings.NewReplacer(" ", "-", ",", "", "/", "-per-").Replace(sys.name + "-" + w.String())
	file, err := os.Create(filepath.Join(s.profile, name+".pprof"))
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	_, err = io.Copy(file, response.Body)
	return errors.Join(err, file.Close())
}
