package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/headgate/headgate/bench/internal/figures"
)

// aim is what a figure, or a ratio of two, should be at most.
type aim struct {
	section string
	what    string
	figure  figure
	most    float64
	unit    string // "" is a ratio
}

// figure works something out of a run.
type figure func(figures.Set) (float64, error)

// mostUndecided is how many answers, in percent, a failure mode may have given in a
// row that is judged: it gives them for less than the store does.
const mostUndecided = 5

// mostUnsent is how many requests, in percent, may not have been sent when they
// were due in a row that is judged: latencies say nothing of them.
const mostUnsent = 1

// at is the figure at a place.
func at(section, table, system, value string) figure {
	return func(s figures.Set) (float64, error) {
		p := figures.Place{Section: section, Table: table, System: system, Value: "undecided_percent"}
		if undecided, err := s.At(p); err == nil && undecided > mostUndecided {
			return 0, &figures.MissingError{Place: p, Reason: fmt.Sprintf("%.0f %% was not decided by the store", undecided)}
		}
		p.Value = "unsent_percent"
		if unsent, err := s.At(p); err == nil && unsent > mostUnsent {
			return 0, &figures.MissingError{Place: p, Reason: fmt.Sprintf("%.0f %% could not be sent at that rate", unsent)}
		}
		p.Value = value
		return s.At(p)
	}
}

// ratio is one figure as a multiple of another.
func ratio(a, b figure) figure {
	return func(s figures.Set) (float64, error) {
		base, err := b(s)
		if err != nil {
			return 0, err
		}
		if base == 0 {
			return 0, errors.New("what it is compared with is 0")
		}
		v, err := a(s)
		return v / base, err
	}
}

// Names of tables and systems, as the commands here print them.
const (
	oneDescriptor, threeDescriptors = "1 descriptor", "3 descriptors"
	overLimit, atRate               = "1 descriptor, over limit", "1 descriptor, 5000 requests/s"
	atLoad                          = "1 descriptor, 70 % of the most that it answers"

	constant  = "grpc-go, answers a constant"
	ratelimit = "envoyproxy/ratelimit"

	inMemory, inRedis             = "headgate, memory", "headgate, Redis"
	grpcGoInMemory, grpcGoInRedis = "headgate, memory, --grpc-transport grpc-go", "headgate, Redis, --grpc-transport grpc-go"

	checkTable = "one check of one descriptor"
)

// aims are what was set out to be reached, in the order of the report.
func aims() []aim {
	all := append(processAims(), middlewareAims()...)
	all = append(all, storeAims()...)
	all = append(all, grpcAims()...)
	all = append(all, latencyAims()...)
	return append(all, frontAims()...)
}

func processAims() []aim {
	cpu := func(table, system string) figure { return at("process", table, system, "cpu-ns/op") }
	heap := func(system string) figure { return at("process", "Heap, keys=1000000", system, "heap-B/key") }
	const hot, many = "Take, keys=1", "Take, keys=10000000"
	return []aim{
		{"process", "hot key, GCRA", cpu(hot, "headgate/gcra"), 36, "ns"},
		{"process", "hot key, sliding window", cpu(hot, "headgate/sliding_window"), 36, "ns"},
		{"process", "hot key, GCRA, to go-limiter", ratio(cpu(hot, "headgate/gcra"), cpu(hot, "go-limiter/token_bucket")), 0.40, ""},
		{"process", "10 million keys, GCRA", cpu(many, "headgate/gcra"), 185, "ns"},
		{"process", "10 million keys, sliding window", cpu(many, "headgate/sliding_window"), 185, "ns"},
		{"process", "10 million keys, GCRA, to throttled", ratio(cpu(many, "headgate/gcra"), cpu(many, "throttled/gcra")), 0.29, ""},
		{"process", "heap of a key, GCRA", heap("headgate/gcra"), 34, "B"},
		{"process", "heap of a key, sliding window", heap("headgate/sliding_window"), 48, "B"},
		{"process", "all that looks on by default, in a whole decision", at("process", "Observe", "headgate/by_default", "added-ns/op"), 40, "ns"},
		{"process", "the same, objects", at("process", "Observe", "headgate/by_default", "allocs/op"), 0, "objects"},
	}
}

func middlewareAims() (all []aim) {
	for _, table := range []struct{ name, what string }{{"Middleware", "a request"}, {"MiddlewareDenied", "a denial"}} {
		for _, peer := range []struct{ system, name string }{{"httprate/sliding_window", "httprate"}, {"ulule-limiter/fixed_window", "ulule/limiter"}} {
			for _, kind := range []struct{ value, what string }{{"cpu-ns/op", "time"}, {"allocs/op", "objects"}} {
				of := func(system string) figure { return at("middleware", table.name, system, kind.value) }
				all = append(all, aim{
					"middleware", fmt.Sprintf("%s, all default fields: %s to %s", table.what, kind.what, peer.name),
					ratio(of("headgate/httplimit"), of(peer.system)), 1, "",
				})
			}
		}
	}
	return all
}

func storeAims() []aim {
	const table = "decisions in Redis"
	own := func(row, value string) figure { return at("redis", table, row, value) }
	const single, three = "1 key of 100,000: ", "3 keys of 100,000, all or nothing: "
	const calm = "1 key of 100,000, at a moderate rate: "
	return []aim{
		{"redis", "Redis, one key", own(single+"coalesced", "redis_us"), 3, "us"},
		{"redis", "Redis, three keys", own(three+"coalesced", "redis_us"), 6.2, "us"},
		{"redis", "Redis, hot key", own("one hot key: coalesced", "redis_us"), 0.5, "us"},
		{"redis", "p99 of a leased hit", own("1 key of 100: leased", "p99_us"), 100, "us"},
		{"redis", "calls of a leased hit", own("1 key of 100: leased", "calls"), 0.002, "calls"},
		{"redis", "calls of a remembered denial", own("over the limit, 1 key of 10,000: coalesced, denials remembered", "calls"), 0.002, "calls"},
		{"redis", "p50 at a moderate rate, to asking alone", ratio(own(calm+"coalesced", "p50_us"), own(calm+"each alone", "p50_us")), 1, ""},
	}
}

func grpcAims() (all []aim) {
	sum := func(table, system string) figure { return at("grpc", table, system, "sum_us") }
	redis := func(table, system string) figure { return at("grpc", table, system, "redis_us") }
	for _, row := range []struct {
		table string
		most  float64
	}{{oneDescriptor, 0.10}, {threeDescriptors, 0.12}, {overLimit, 0.05}} {
		all = append(
			all,
			aim{"grpc", fmt.Sprintf("%s, %s: server + Redis to %s", row.table, inRedis, ratelimit), ratio(sum(row.table, inRedis), sum(row.table, ratelimit)), row.most, ""},
			aim{"grpc", fmt.Sprintf("%s, %s: Redis alone to %s", row.table, inRedis, ratelimit), ratio(redis(row.table, inRedis), redis(row.table, ratelimit)), 1, ""},
		)
	}
	return append(
		all,
		aim{"grpc", fmt.Sprintf("%s, %s: to a constant", oneDescriptor, inMemory), ratio(sum(oneDescriptor, inMemory), sum(oneDescriptor, constant)), 0.20, ""},
		aim{"grpc", "three descriptors: Redis for all checks of a request", redis(threeDescriptors, inRedis), 12, "us"},
		aim{"grpc", "memory of a key in Redis", at("grpc", oneDescriptor, inRedis, "key_bytes"), 110, "B"},
	)
}

func latencyAims() []aim {
	to := func(value string) figure {
		of := func(system string) figure { return at("latency", atRate, system, value) }
		return ratio(of(inRedis), of(ratelimit))
	}
	return []aim{
		{"latency", fmt.Sprintf("5,000/s, %s: p99 to %s", inRedis, ratelimit), to("p99_us"), 0.2, ""},
		{"latency", fmt.Sprintf("5,000/s, %s: server + Redis to %s", inRedis, ratelimit), to("sum_us"), 0.3, ""},
		{"latency", fmt.Sprintf("%s: p99 at 70 %% of the most that it answers", inRedis), at("latency", atLoad, inRedis, "p99_us"), 5000, "us"},
		{"latency", fmt.Sprintf("5,000/s, %s: Redis alone to %s", inRedis, ratelimit), to("redis_us"), 1, ""},
	}
}

func frontAims() (all []aim) {
	for _, where := range []string{"memory", "Redis"} {
		of := func(form string) figure { return at("check", checkTable, where+": "+form, "sum_us") }
		grpcGo := func(form string) figure { return at("check", checkTable, where+", grpc-go: "+form, "sum_us") }
		all = append(
			all,
			aim{"check", where + ": JSON with keep-alive to grpc-go on as many connections", ratio(of("JSON, 64 connections"), grpcGo("gRPC, 64 connections")), 1.5, ""},
			aim{"check", where + ": JSON with keep-alive to grpc-go on 4 connections", ratio(of("JSON, 64 connections"), grpcGo("gRPC, 4 connections of 16 calls")), 1.5, ""},
		)
	}
	cpu := func(system string) figure { return at("proxy", "reverse proxy", system, "cpu_us") }
	return append(all, aim{"proxy", "one limit in memory, to httputil.ReverseProxy", ratio(cpu("headgate proxy, one limit in memory"), cpu("httputil.ReverseProxy")), 1, ""})
}

// The verdicts on an aim.
const (
	met         = "met"
	missed      = "MISSED"
	notMeasured = "not measured"
)

// judge says whether the aim is met, and by what figure or why not.
func (a *aim) judge(s figures.Set) (verdict, figure string) {
	v, err := a.figure(s)
	var missing *figures.MissingError
	switch {
	case errors.As(err, &missing):
		return notMeasured, missing.Error()
	case err != nil:
		return notMeasured, err.Error()
	}
	verdict = met
	if v > a.most {
		verdict = missed
	}
	return verdict, a.format(v)
}

func (a *aim) format(v float64) string {
	switch a.unit {
	case "":
		return fmt.Sprintf("%.2f", v)
	case "calls":
		return fmt.Sprintf("%.4f", v)
	case "objects":
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f %s", v, a.unit)
}

func (a *aim) limit() string {
	return strings.TrimSpace(fmt.Sprintf("%v %s", a.most, strings.TrimSuffix(a.unit, "calls")))
}

// writeAims writes the aims of a section below its tables.
func writeAims(w io.Writer, s figures.Set, section string) error {
	var b strings.Builder
	for _, a := range aims() {
		if a.section == section {
			verdict, figure := a.judge(s)
			fmt.Fprintf(&b, "  %-12s  %s: %s, aim at most %s\n", verdict, a.what, figure, a.limit())
		}
	}
	if b.Len() == 0 {
		return fmt.Errorf("there are no aims for %q", section)
	}
	_, err := fmt.Fprintf(w, "\nAims:\n%s", b.String())
	return err
}

// appendAims writes the aims of all sections as a table.
func appendAims(b *strings.Builder, s figures.Set) {
	count := make(map[string]int)
	var rows strings.Builder
	for _, a := range aims() {
		verdict, figure := a.judge(s)
		count[verdict]++
		if verdict == missed {
			verdict = "**missed**"
		}
		fmt.Fprintf(&rows, "| %s | %s | %s | %s |\n", a.what, a.limit(), figure, verdict)
	}
	fmt.Fprintf(b, "Of %d aims %d are met, %d are missed and %d were not measured.\n\n", len(aims()), count[met], count[missed], count[notMeasured])
	b.WriteString("| aim | at most | measured | |\n|---|---|---|---|\n")
	b.WriteString(rows.String())
}
