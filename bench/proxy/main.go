// Command proxy measures `headgate proxy` beside httputil.ReverseProxy with the
// same transport, in one run: requests per second and, because the machine is
// shared with the load, processor time of the proxy for each request.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/headgate/headgate/bench/internal/figures"
	"github.com/headgate/headgate/bench/internal/server"
)

func main() {
	o := options{}
	flag.StringVar(&o.headgate, "headgate", "", "binary of headgate; empty builds one")
	flag.StringVar(&o.redis, "redis", "redis-server", "binary of redis-server")
	flag.StringVar(&o.figures, "figures", "", "add the figures to this `file`, for benchpage")
	flag.IntVar(&o.connections, "connections", 32, "connections of the load, each with one request at a time")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each row is measured; the median counts")
	flag.DurationVar(&o.measure, "measure", 3*time.Second, "how long each time")
	role := flag.String("role", "", "for itself: backend or bare, then address and backend")
	flag.Parse()
	var err error
	switch *role {
	case "":
		err = run(o)
	case "backend":
		err = serveBackend(flag.Arg(0))
	case "bare":
		err = serveBare(flag.Arg(0), flag.Arg(1))
	default:
		err = fmt.Errorf("role %q", *role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

type options struct {
	headgate, redis     string
	figures             string
	connections, rounds int
	measure             time.Duration
}

// row is one proxy under load.
type row struct {
	name    string
	process *server.Process // nil: the backend itself
	addr    string
	rates   []float64 // requests per second
	cpu     []float64 // microseconds of the proxy for each request
}

func run(o options) (err error) {
	work, err := os.MkdirTemp("", "proxybench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if o.headgate == "" {
		o.headgate = filepath.Join(work, "headgate")
		build := exec.Command("go", "build", "-trimpath", "-tags", "disable_pgv,grpcnotrace", "-ldflags", "-s -w", "-o", o.headgate, "./cmd/headgate")
		build.Dir = ".." // of bench, where this runs: the command is of another module
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build headgate: %w", err)
		}
	}
	redis, err := server.StartRedis(o.redis, work, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.Stop()) }()
	rows, stop, err := start(o, work, redis.URL())
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	// In turns, so that a slow moment of the machine falls on all.
	for range o.rounds {
		for _, r := range rows {
			if err := r.take(o); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	report(rows)
	return figures.Append(o.figures, figuresOf(rows))
}

// systems are the proxies that are measured; rules of "" are the one without
// headgate.
var systems = []struct{ name, rules, store string }{
	{"httputil.ReverseProxy", "", ""},
	{"headgate proxy, no rule matches", "{key: nobody, rate_limit: {unit: hour, requests_per_unit: 1}}", "memory://"},
	{"headgate proxy, one limit in memory", "{key: remote_address, rate_limit: {unit: hour, requests_per_unit: 1000000000}}", "memory://"},
	{"headgate proxy, one limit in Redis", "{key: remote_address, rate_limit: {unit: hour, requests_per_unit: 1000000000}}", "redis"},
}

// start starts the backend and the proxies. stop ends what was started, also when
// there is an error.
func start(o options, work, redisURL string) (rows []*row, stop func() error, err error) {
	var processes []*server.Process
	stop = func() error {
		var errs []error
		for _, p := range processes {
			errs = append(errs, p.Stop())
		}
		return errors.Join(errs...)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, stop, err
	}
	launch := func(name, binary string, args func(addr string) []string) (*row, error) {
		addr, err := server.FreeAddr()
		if err != nil {
			return nil, err
		}
		p, err := server.Start(name, binary, nil, args(addr)...)
		if err != nil {
			return nil, err
		}
		processes = append(processes, p)
		return &row{name: name, process: p, addr: addr}, p.WaitFor("tcp", addr)
	}
	backend, err := launch("backend, asked directly", self, func(addr string) []string { return []string{"-role", "backend", addr} })
	if err != nil {
		return nil, stop, err
	}
	rows = append(rows, backend)
	for i, s := range systems {
		binary, args := self, func(addr string) []string { return []string{"-role", "bare", addr, backend.addr} }
		if s.rules != "" {
			rules := filepath.Join(work, fmt.Sprintf("rules%d.yaml", i))
			if err := os.WriteFile(rules, []byte("domain: bench\ndescriptors:\n- "+s.rules+"\n"), 0o600); err != nil {
				return rows, stop, err
			}
			store := s.store
			if store == "redis" {
				store = redisURL
			}
			binary, args = o.headgate, func(addr string) []string {
				return []string{"proxy", "--to", "http://" + backend.addr, "--http-addr", addr, "--ops-addr", "127.0.0.1:0",
					"--rules", rules, "--store", store, "--store-budget", "1s", "--drain-delay", "0s", "--log-level", "error"}
			}
		}
		r, err := launch(s.name, binary, args)
		if err != nil {
			return rows, stop, err
		}
		rows = append(rows, r)
	}
	return rows, stop, nil
}

// take measures r once.
func (r *row) take(o options) error {
	if _, err := load(r.addr, o.connections, o.measure/4); err != nil { // warm
		return err
	}
	before, err := r.process.CPU()
	if err != nil {
		return err
	}
	begin := time.Now()
	requests, err := load(r.addr, o.connections, o.measure)
	took := time.Since(begin)
	if err != nil {
		return err
	}
	after, err := r.process.CPU()
	if err != nil {
		return err
	}
	r.rates = append(r.rates, float64(requests)/took.Seconds())
	r.cpu = append(r.cpu, float64((after-before).Microseconds())/float64(requests))
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func report(rows []*row) {
	bare := median(rows[1].cpu)
	fmt.Printf("%-38s %12s %14s %8s\n", "", "requests/s", "CPU us/request", "to bare")
	for _, r := range rows {
		cpu := median(r.cpu)
		fmt.Printf("%-38s %12.0f %14.1f %8.2f\n", r.name, median(r.rates), cpu, cpu/bare)
	}
}

// figuresOf are the rows for a page.
func figuresOf(rows []*row) (all []figures.Row) {
	for _, r := range rows {
		all = append(all, figures.Row{
			Section: "proxy", Table: "reverse proxy", System: r.name,
			Values: map[string]float64{"rate": median(r.rates), "cpu_us": median(r.cpu)},
		})
	}
	return all
}
