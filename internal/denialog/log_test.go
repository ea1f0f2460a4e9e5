package denialog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"
	"unsafe"

	"go.uber.org/goleak"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/trace"
	"github.com/headgate/headgate/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const someRules = `
domain: d
descriptors:
- {key: user, rate_limit: {name: per-user, unit: hour, requests_per_unit: 2}}
- {key: route, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: call, concurrency: {limit: 1, hold: id}}
- key: twice
  limits: [{unit: hour, requests_per_unit: 1}, {unit: minute, requests_per_unit: 1}]
`

func load(t testing.TB, yaml string) *rules.Set {
	t.Helper()
	return testrules.Load(t, yaml)
}

// output is what was written so far.
type output struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.Write(p)
}

// take returns what was written since the last time. It is called in a bubble, when all
// lines are written.
func (o *output) take() string {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.bytes.Reset()
	return o.bytes.String()
}

// lines returns the objects that were written.
func (o *output) lines(t *testing.T) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for line := range strings.Lines(o.take()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines = append(lines, fields)
	}
	return lines
}

// newLog returns a Log of JSON and what it writes.
func newLog(t testing.TB, set *rules.Set, perMinute int) (*Log, *output) {
	o := new(output)
	l := New(Options{Logger: slog.New(slog.NewJSONHandler(o, nil)), PerMinute: perMinute, ConfigVersion: func() string { return "v1" }})
	l.SetRules(set)
	return l, o
}

// deny is a request that a limit denied.
func deny(rule *rules.Rule, user string) (*headgate.Request, *headgate.Response) {
	v := headgate.Verdict{Rule: rule, Depth: 1, Hits: 1}
	v.Limit = limit.Must(limit.PerHour(2))
	if rule != nil {
		v.Limit = rule.Limits[0].Limit
	}
	v.Decision.Limit, v.Decision.RetryAfter = 2, 1500*time.Millisecond
	return &headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{{Hits: 1, Entries: []descriptor.Entry{{Key: "user", Value: user}}}}},
		&headgate.Response{DomainKnown: true, Verdicts: []headgate.Verdict{v}}
}

// What a line says, by a real limiter.
func TestLines(t *testing.T) {
	set := load(t, someRules)
	for _, tt := range []struct {
		name, asks string
		hits       int64
		caller     *limit.Limit
		times      int
		hold       limit.Hold
		want       []string // of all lines, "field=value"
	}{
		{name: "allowed", asks: "user:a", hits: 1, times: 2},
		{name: "denied", asks: "user:a", hits: 1, times: 3, want: []string{
			"verdict=denied reason=over_limit domain=d rule=per-user policy=per-user hits=1 algorithm=sliding_window limit=2 remaining=0 used=2"}},
		{name: "never", asks: "user:a", hits: 3, times: 1, want: []string{
			"verdict=denied reason=never_fits domain=d rule=per-user policy=per-user hits=3 algorithm=sliding_window limit=2 remaining=2 used=0"}},
		{name: "shadow", asks: "shadow:a", hits: 1, times: 2, want: []string{
			"verdict=shadow_denied reason=over_limit domain=d rule=d.shadow policy= hits=1 algorithm=sliding_window limit=1 remaining=0 used=1"}},
		{name: "caller", asks: "user:a", hits: 1, caller: limit.Must(limit.PerHour(1)), times: 2, want: []string{
			"verdict=denied reason=over_limit domain=d rule=(caller) policy= hits=1 algorithm=sliding_window limit=1 remaining=0 used=1"}},
		{name: "no slot", asks: "call:a", hits: 1, times: 2, hold: 7, want: []string{
			"verdict=denied reason=no_slot domain=d rule=d.call policy= hits=1 role=concurrency algorithm=concurrency limit=1 remaining=0 used=1"}},
		{name: "one line of one rule", asks: "twice:a", hits: 1, times: 2, want: []string{
			"verdict=denied reason=over_limit domain=d rule=d.twice policy= hits=1 algorithm=sliding_window limit=1 remaining=0 used=1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, out := newLog(t, set, 100)
				buckets, err := memstore.New(memstore.Options{})
				if err != nil {
					t.Fatal(err)
				}
				limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set, Observer: log})
				if err != nil {
					t.Fatal(err)
				}
				entries, err := descriptor.Parse(tt.asks)
				if err != nil {
					t.Fatal(err)
				}
				for i := range tt.times {
					requests := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: entries, Hits: tt.hits, Limit: tt.caller}}}}
					if tt.hold != 0 {
						requests[0].Hold = tt.hold + limit.Hold(i)
					}
					if err := limiter.Check(t.Context(), requests, make([]headgate.Response, 1)); err != nil {
						t.Fatal(err)
					}
				}
				var got []string
				for _, line := range out.lines(t) {
					got = append(got, fields(line, "verdict", "reason", "domain", "rule", "policy", "hits", "role", "algorithm", "limit", "remaining", "used"))
					if line["key"] != log.hasher.Hash("d", tt.asks) || line["config_version"] != "v1" || line["msg"] != "denied" || line["suppressed"] != 0.0 {
						t.Errorf("%v", line)
					}
					if after, ok := line["retry_after"].(float64); ok == (line["reason"] == never) || ok && after <= 0 {
						t.Errorf("%v", line)
					}
				}
				if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
					t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
				}
			})
		})
	}
}

// fields returns those of a line that are there.
func fields(line map[string]any, names ...string) string {
	var text []string
	for _, name := range names {
		if v, ok := line[name]; ok {
			text = append(text, fmt.Sprintf("%s=%v", name, v))
		}
	}
	return strings.Join(text, " ")
}

func TestVerdictsAndReasons(t *testing.T) {
	set := load(t, someRules)
	for name, tt := range map[string]struct {
		change func(*headgate.Response, *headgate.Verdict)
		want   string
	}{
		"degraded": {func(_ *headgate.Response, v *headgate.Verdict) {
			v.By, v.Degraded = verdict.ByFailureMode, store.Timeout
		}, "degraded_denied store_timeout limit=2"},
		"local": {func(_ *headgate.Response, v *headgate.Verdict) {
			v.Degraded, v.By = store.Timeout, verdict.ByLocalShare
		}, "local_denied store_timeout limit=2 remaining=0 used=2"},
		"ban":                            {func(_ *headgate.Response, v *headgate.Verdict) { v.Role = rules.Banning }, "denied banned limit=2 remaining=0 used=2"},
		"on trial":                       {func(_ *headgate.Response, v *headgate.Verdict) { v.Effect = verdict.Trial }, ""},
		"replaced":                       {func(_ *headgate.Response, v *headgate.Verdict) { v.By = verdict.ByReplacement }, ""},
		"skipped":                        {func(_ *headgate.Response, v *headgate.Verdict) { v.By = verdict.BySkipping }, ""},
		"let pass by another quota rule": {func(r *headgate.Response, _ *headgate.Verdict) { r.Allowed = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, out := newLog(t, set, 1)
				req, resp := deny(set.Rules()[0], "a")
				tt.change(resp, &resp.Verdicts[0])
				log.Decided(req, resp, 0)
				got := ""
				for _, line := range out.lines(t) {
					got += fmt.Sprintf("%v %v %s", line["verdict"], line["reason"], fields(line, "limit", "remaining", "used"))
				}
				if got != tt.want {
					t.Errorf("%q, want %q", got, tt.want)
				}
			})
		})
	}
	log, _ := newLog(t, set, 1)
	log.Decided(nil, &headgate.Response{Verdicts: make([]headgate.Verdict, 1)}, 0) // of a decision that panicked
}

func TestIDsOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := load(t, someRules)
		log, out := newLog(t, set, 5)
		req, resp := deny(set.Rules()[0], "a")
		log.Decided(req, resp, 0)
		req.Origin.Trace.ID[15], resp.ID = 0xab, trace.NewDecisionID(time.Now())
		log.Decided(req, resp, 0)
		lines := out.lines(t)
		if len(lines) != 2 || lines[0]["trace_id"] != nil || lines[0]["event_id"] != nil {
			t.Fatalf("%v", lines)
		}
		if lines[1]["trace_id"] != "000000000000000000000000000000ab" || lines[1]["event_id"] != resp.ID.String() {
			t.Errorf("%v", lines[1])
		}
	})
}

// A rule has its lines in a minute, and the next line tells how many there would have been.
func TestBudgetOfARule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := load(t, someRules)
		log, out := newLog(t, set, 2)
		flood := func(rule *rules.Rule, n int) {
			req, resp := deny(rule, "a")
			for range n {
				log.Decided(req, resp, 0)
			}
		}
		lines := func() string {
			var text []string
			for _, line := range out.lines(t) {
				text = append(text, fields(line, "rule", "suppressed"))
			}
			return strings.Join(text, "; ")
		}
		flood(set.Rules()[0], 10)
		flood(set.Rules()[1], 1)
		flood(nil, 3)
		if got, want := lines(), "rule=per-user suppressed=0; rule=per-user suppressed=0; rule=d.route suppressed=0; rule=(caller) suppressed=0; rule=(caller) suppressed=0"; got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		time.Sleep(59 * time.Second)
		flood(set.Rules()[0], 1)
		if got := lines(); got != "" {
			t.Errorf("in the same minute: %s", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		flood(set.Rules()[0], 4)
		flood(set.Rules()[1], 1)
		if got, want := lines(), "rule=per-user suppressed=9; rule=per-user suppressed=0; rule=d.route suppressed=0"; got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		time.Sleep(time.Hour) // minutes in which nothing happens
		flood(set.Rules()[0], 1)
		if got, want := lines(), "rule=per-user suppressed=2"; got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	})
}

// All rules together have a budget too.
func TestBudgetOfAllRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var yaml strings.Builder
		yaml.WriteString("domain: d\ndescriptors:\n")
		for i := range maxPerMinute + 500 {
			fmt.Fprintf(&yaml, "- {key: k%d, rate_limit: {unit: hour, requests_per_unit: 1}}\n", i)
		}
		set := load(t, yaml.String())
		log, out := newLog(t, set, 1)
		for range 2 {
			written := 0
			for _, rule := range set.Rules() {
				req, resp := deny(rule, "a")
				log.Decided(req, resp, 0)
				written += len(out.lines(t))
			}
			if written != maxPerMinute {
				t.Errorf("%d lines in a minute", written)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
	})
}

func TestNoLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := load(t, someRules)
		log, out := newLog(t, set, 0)
		req, resp := deny(set.Rules()[0], "a")
		log.Decided(req, resp, 0)
		if got := out.take(); got != "" {
			t.Error(got)
		}
		quiet := New(Options{Logger: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn})), PerMinute: 1})
		quiet.Decided(req, resp, 0)
		if got := out.take(); got != "" {
			t.Error(got)
		}
	})
}

// A reload of the rules keeps what is left of the budgets.
func TestRulesAreSwapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := load(t, someRules)
		log, out := newLog(t, set, 1)
		for range 3 {
			req, resp := deny(set.Rules()[0], "a")
			log.Decided(req, resp, 0)
			set = load(t, someRules)
			log.SetRules(set)
		}
		if lines := out.lines(t); len(lines) != 1 {
			t.Errorf("%v", lines)
		}
		log.SetRules(nil)
		for _, rule := range set.Rules()[:2] { // of requests under way: they share a budget
			req, resp := deny(rule, "a")
			log.Decided(req, resp, 0)
		}
		if lines := out.lines(t); len(lines) != 1 || lines[0]["rule"] != "per-user" {
			t.Errorf("%v", lines)
		}
	})
}

// hostile are bytes by which one would forge a line, or speak to a terminal.
var hostile = []string{
	"a\nlevel=ERROR msg=forged", "a\r\nb", "\x1b[2J\x1b]0;title\a", "\x00\x7f\u0085\u009b31m", "\u202e\u2066\u2028\u2029", "\xff\xfe", `"} {"level":"ERROR"`,
	strings.Repeat("é", 4000), strings.Repeat("\xc3", 4000), strings.Repeat("\x00", 4000), " ", "", "ok",
}

// checkLine holds that bytes are one line, which a terminal does not obey.
func checkLine(t *testing.T, line string) {
	t.Helper()
	body, ok := strings.CutSuffix(line, "\n")
	if !ok || len(line) > 8<<10 || !utf8.ValidString(body) || strings.ContainsFunc(body, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%d bytes: %.300q", len(line), line)
	}
}

// hostileLine logs a request that has text wherever it can, in both formats.
func hostileLine(t *testing.T, text string) {
	synctest.Test(t, func(t *testing.T) {
		out := new(output)
		req, resp := deny(nil, text)
		req.Domain, resp.Verdicts[0].Name = text, text
		for _, handler := range []slog.Handler{slog.NewTextHandler(out, nil), slog.NewJSONHandler(out, nil)} {
			New(Options{Logger: slog.New(handler), PerMinute: 1, ConfigVersion: func() string { return text }}).Decided(req, resp, 0)
			line := out.take()
			checkLine(t, line)
			if _, json := handler.(*slog.JSONHandler); !json {
				continue
			}
			out.Write([]byte(line))
			if lines := out.lines(t); len(lines) != 1 || lines[0]["level"] != "INFO" || lines[0]["verdict"] != "denied" {
				t.Errorf("%.300s", line)
			}
		}
	})
}

func TestHostileBytes(t *testing.T) {
	for _, text := range hostile {
		hostileLine(t, text)
	}
}

func FuzzLine(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(hostileLine)
}

// No value of a key is in a line.
func TestKeysAreHashed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := load(t, someRules)
		log, out := newLog(t, set, 9)
		req, resp := deny(set.Rules()[0], "secret-api-key")
		req.Origin.UserAgent = "secret-agent"
		log.Decided(req, resp, 0)
		if got := out.take(); strings.Contains(got, "secret") || !strings.Contains(got, log.hasher.Hash("d", "user:secret-api-key")) {
			t.Error(got)
		}
	})
}

// Lines are written after the request's memory is used again.
func TestLinesKeepNothingOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog(t, nil, 9)
		memory := []byte("domain")
		req, resp := deny(nil, "a")
		req.Domain = unsafe.String(&memory[0], len(memory))
		log.Decided(req, resp, 0)
		copy(memory, "xxxxxx")
		if lines := out.lines(t); len(lines) != 1 || lines[0]["domain"] != "domain" {
			t.Errorf("%v", lines)
		}
	})
}

// stuck is who reads a log and stops to.
type stuck struct {
	output
	free chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.free
	return s.output.Write(p)
}

// Nobody waits for the reader of a log. What does not fit is told of later.
func TestReaderThatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{free: make(chan struct{})}
		log := New(Options{Logger: slog.New(slog.NewJSONHandler(out, nil)), PerMinute: maxPerMinute, Hasher: keyname.Random()})
		req, resp := deny(nil, "a")
		log.Decided(req, resp, 0)
		synctest.Wait() // one line is being written
		for range maxWaiting + 10 {
			log.Decided(req, resp, 0)
		}
		close(out.free)
		if lines := out.lines(t); len(lines) != 1+maxWaiting {
			t.Errorf("%d lines", len(lines))
		}
		log.Decided(req, resp, 0)
		if lines := out.lines(t); len(lines) != 1 || lines[0]["suppressed"] != 10.0 {
			t.Errorf("%v", lines)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := load(t, someRules)
		log, out := newLog(t, set, 3)
		var all sync.WaitGroup
		const workers, each = 8, 500
		for worker := range workers {
			all.Go(func() {
				req, resp := deny(set.Rules()[worker%2], "a")
				for range each {
					log.Decided(req, resp, 0)
				}
			})
		}
		all.Go(func() { log.SetRules(set) })
		all.Wait()
		req, resp := deny(set.Rules()[0], "a")
		suppressed := 0.0 // of that rule, which a line may tell while others are suppressed
		lines := out.lines(t)
		for _, line := range lines {
			if n, ok := line["suppressed"].(float64); ok && line["rule"] == set.Rules()[0].ID {
				suppressed += n
			}
		}
		if len(lines) != 6 {
			t.Errorf("%d lines of two rules", len(lines))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		log.Decided(req, resp, 0)
		lines = out.lines(t)
		if n, _ := lines[0]["suppressed"].(float64); len(lines) != 1 || suppressed+n != workers*each/2-3 {
			t.Errorf("%v suppressed before: %v", suppressed, lines)
		}
	})
}

func TestDecidedDoesNotAllocate(t *testing.T) {
	set := load(t, someRules)
	log, _ := newLog(t, set, 1)
	req, resp := deny(set.Rules()[0], "a")
	log.Decided(req, resp, 0)
	if n := alloctest.PerRun(1000, func() { log.Decided(req, resp, 0) }); n != 0 {
		t.Errorf("%v allocations for a denial without a line", n)
	}
	resp.Allowed, resp.Verdicts[0].Decision.Allowed = true, true
	if n := alloctest.PerRun(1000, func() { log.Decided(req, resp, 0) }); n != 0 {
		t.Errorf("%v allocations for an allowed request", n)
	}
}

func BenchmarkDecided(b *testing.B) {
	set := load(b, someRules)
	for _, allowed := range []bool{true, false} {
		b.Run(map[bool]string{true: "allowed", false: "denied"}[allowed], func(b *testing.B) {
			log, _ := newLog(b, set, 1)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				req, resp := deny(set.Rules()[0], "a")
				resp.Allowed, resp.Verdicts[0].Decision.Allowed = allowed, allowed
				for pb.Next() {
					log.Decided(req, resp, 0)
				}
			})
		})
	}
}

// A line is put together where the request is decided.
func BenchmarkLine(b *testing.B) {
	set := load(b, someRules)
	log, _ := newLog(b, set, 1)
	req, resp := deny(set.Rules()[0], "a")
	b.ReportAllocs()
	for b.Loop() {
		log.line(req, resp, &resp.Verdicts[0], 7)
	}
}
