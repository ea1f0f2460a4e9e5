package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shared returns what the command line makes of no flags, on a free port, for every
// way to serve.
func shared() config.Settings {
	return config.Settings{
		Store: config.NewStoreURL("memory://"), StoreBudget: 20 * time.Millisecond, RulesPoll: time.Hour,
		OpsAddr: "127.0.0.1:0", DrainTimeout: 5 * time.Second,
		Answers:  config.Answers{Headers: "draft-8", XRateLimit: true, XRateLimitReset: "unix", Reset: "full", Body: "platform"},
		LogLevel: "info", LogFormat: "text",
	}
}

// settings is shared for those who ask for decisions.
func settings() config.Serve {
	return config.Serve{
		Settings: shared(), HTTPAddr: "127.0.0.1:0", GRPCAddr: "127.0.0.1:0",
		RLSHeaders: "off", RLSClosed: "over_limit", GRPCTransport: "h2",
		Auth: config.Auth{AuthPeers: "127.0.0.0/8,::1/128"},
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// runner is a Run under way.
type runner struct {
	http, grpc, ops string
	stop            context.CancelFunc
	ended           chan error
}

// run starts Run and waits until it is ready.
func run(t *testing.T, s config.Serve, reload <-chan os.Signal) *runner {
	t.Helper()
	return runWith(t, s, Options{Build: telemetry.Build{Version: "test"}, Logger: quiet(), Reload: reload})
}

// runWith is run with options, but for Out.
func runWith(t *testing.T, s config.Serve, o Options) *runner {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	r := &runner{stop: cancel, ended: make(chan error, 1)}
	go func() {
		o.Out = write
		err := Run(ctx, s, o)
		write.CloseWithError(io.EOF)
		r.ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		http.DefaultClient.CloseIdleConnections()
	})
	lines := bufio.NewScanner(read)
	if !lines.Scan() {
		t.Fatalf("not ready: %v", <-r.ended)
	}
	if _, err := fmt.Sscanf(lines.Text(), "headgate ready http=%s grpc=%s ops=%s", &r.http, &r.grpc, &r.ops); err != nil {
		t.Fatalf("%q: %v", lines.Text(), err)
	}
	return r
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestRunServesAndStops(t *testing.T) {
	r := run(t, settings(), nil)
	for url, want := range map[string]string{
		"http://" + r.ops + "/":             "/metrics",
		"http://" + r.ops + "/healthz":      "ok",
		"http://" + r.ops + "/readyz":       `"ready": true`,
		"http://" + r.ops + "/rules":        `"rules": []`,
		"http://" + r.ops + "/metrics":      "headgate_memory_store_max_bytes 2.68435456e+08",
		"http://" + r.http + "/healthcheck": "OK",
	} {
		if status, body := get(t, url); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", url, status, body)
		}
	}
	if status, _ := get(t, "http://"+r.ops+"/nothing"); status != 404 {
		t.Errorf("status %d for a path that is not there", status)
	}
	conn, err := net.Dial("tcp", r.grpc)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if _, err := net.Dial("tcp", r.http); err == nil {
		t.Error("still listening")
	}
}

func TestRunRefusesToStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		name   string
		change func(*config.Serve)
		want   string
	}{
		{"address taken", func(s *config.Serve) { s.OpsAddr = taken.Addr().String() }, "--ops-addr: listen tcp"},
		{"no rules", func(s *config.Serve) { s.Rules = "absent" }, "absent"},
		{"bad store", func(s *config.Serve) { s.Store = config.NewStoreURL("redis://h/x") }, "--store: "},
		{"small store", func(s *config.Serve) { s.Store = config.NewStoreURL("memory://?max_bytes=1") }, "--store: "},
		{"no such header", func(s *config.Serve) { s.Headers = "x" }, `"x"`},
		{"no such directory", func(s *config.Serve) { s.GRPCAddr = "unix:///absent/x.sock" }, "--grpc-addr: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := settings()
			tt.change(&s)
			err := Run(t.Context(), s, Options{Logger: quiet(), Out: io.Discard})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestReadinessGoesFirst(t *testing.T) {
	s := settings()
	s.DrainDelay = time.Hour // so that it can be looked at
	a, err := newProcess(&s.Settings, config.Does{Decide: true}, new(keys), Options{Logger: quiet(), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer a.stack.Close()
	fronts, err := a.deciders(&s)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	checks := fronts[0].start(l).(*gentleServer)
	go checks.Serve()
	defer checks.server.Close()
	defer l.Close()
	handler := a.ops.Handler
	status := func(path string, h http.Handler) int {
		w := newRecorder()
		h.ServeHTTP(w, must(http.NewRequest("GET", path, nil)))
		return w.status
	}
	if got := status("/readyz", handler); got != 200 {
		t.Errorf("/readyz %d", got)
	}
	a.health.draining.Store(true)
	if got := status("/readyz", handler); got != 503 {
		t.Errorf("/readyz %d while draining", got)
	}
	if got := status("/healthz", handler); got != 200 {
		t.Errorf("/healthz %d while draining", got)
	}
	for _, request := range []*http.Request{
		must(http.NewRequest("GET", "http://"+l.Addr().String()+"/healthcheck", nil)),
		must(http.NewRequest("POST", "http://"+l.Addr().String()+"/v1/check", strings.NewReader(`{"domain":"none"}`))),
	} {
		resp, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if !resp.Close {
			t.Errorf("%s: open connections are not asked to go", request.Method)
		}
		if request.Method == "GET" && resp.StatusCode != 500 {
			t.Errorf("/healthcheck %d while draining", resp.StatusCode)
		}
	}
}

// A connection that was accepted before the end of listening is not hung up on:
// whoever opened it is on the way with a request.
func TestLastConnectionIsServed(t *testing.T) {
	r := run(t, settings(), nil)
	conn, err := net.Dial("tcp", r.http)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /healthcheck HTTP/1.1\r\n")
	get(t, "http://"+r.http+"/healthcheck") // was accepted later
	r.stop()
	for {
		late, err := net.Dial("tcp", r.http)
		if err != nil {
			break
		}
		late.Close()
	}
	io.WriteString(conn, "Host: headgate\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("hung up: %v", err)
	}
	response.Body.Close()
	if !response.Close {
		t.Error("the client is not told that the connection ends")
	}
	if err := <-r.ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// Both deadlines begin when the header has been read: whoever ran into the first
// must still be told so.
func TestSlowBodyCanBeAnswered(t *testing.T) {
	s := newHTTPServer(http.NotFoundHandler(), quiet())
	if s.WriteTimeout <= s.ReadTimeout {
		t.Errorf("a body may take %v, and its answer must be out after %v", s.ReadTimeout, s.WriteTimeout)
	}
}

func must(r *http.Request, err error) *http.Request {
	if err != nil {
		panic(err)
	}
	return r
}

type recorder struct {
	header http.Header
	status int
}

func newRecorder() *recorder { return &recorder{header: http.Header{}, status: 200} }

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(status int)      { r.status = status }

// TestReloadBySignal: a signal has the rule files read where nothing tells that they have changed,
// such as on a file system that does not report what others write.
func TestReloadBySignal(t *testing.T) {
	s := settings()
	s.Rules = filepath.Join(t.TempDir(), "rules.yaml")
	rules := func(domain string) string {
		return "domain: " + domain + "\ndescriptors:\n  - {key: k, rate_limit: {unit: minute, requests_per_unit: 1}}\n"
	}
	writeFile(t, s.Rules, rules("a"))
	// Nobody watches the folder of the other name of that file.
	unwatched := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.Link(s.Rules, unwatched); err != nil {
		t.Fatal(err)
	}
	reload := make(chan os.Signal)
	r := run(t, s, reload)
	r.shows(t, "/rlconfig", "a.k: unit=MINUTE requests_per_unit=1,")
	for _, domain := range []string{"b", "c"} { // the first one may be what is read when the watch begins
		writeFile(t, unwatched, rules(domain))
		reload <- os.Interrupt // any value
		r.shows(t, "/rlconfig", domain+".k: unit=MINUTE requests_per_unit=1,")
	}
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

func TestMemoryOptions(t *testing.T) {
	for raw, want := range map[string]int64{"memory://": 0, "memory:///": 0, "memory://?max_bytes=1MiB": 1 << 20} {
		if got, err := memoryOptions(raw); err != nil || got != want {
			t.Errorf("%s: %d %v", raw, got, err)
		}
	}
	for _, raw := range []string{"memory://host", "memory://u:p@", "memory:///path", "memory://?max=1", "memory://?max_bytes=1&max_bytes=2", "memory://?max_bytes=0", "memory://?max_bytes=-1", "memory://?%zz"} {
		if _, err := memoryOptions(raw); err == nil {
			t.Errorf("%s was accepted", raw)
		}
	}
}

func TestStoreThatGoesAndComes(t *testing.T) {
	var log strings.Builder
	down := &store.Error{Op: "ping", Store: "redis://h", Reason: store.Unavailable, Hint: "is it running?"}
	var answer error
	h := &health{
		logger:  slog.New(slog.NewTextHandler(&log, nil)),
		metrics: telemetry.New(telemetry.Build{}, telemetry.Options{}),
		ping:    func(context.Context) error { return answer },
	}
	expect := func(lines int, degraded bool) {
		t.Helper()
		h.pingStore(t.Context())
		if got := strings.Count(log.String(), "\n"); got != lines {
			t.Errorf("%d lines, want %d:\n%s", got, lines, log.String())
		}
		if r := h.report(); r.Degraded != degraded || !r.Ready {
			t.Errorf("%+v", r)
		}
	}
	expect(0, false)
	answer = down
	expect(1, true)
	expect(1, true) // told once
	answer = &store.Error{Op: "ping", Reason: store.Loading}
	expect(2, true) // another reason
	answer = nil
	expect(3, false)
	if !strings.Contains(log.String(), "is it running?") {
		t.Errorf("no hint in %s", log.String())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	answer = errors.New("cut off")
	h.pingStore(ended)
	if h.storeErr.Load() != nil {
		t.Error("the end of the process is blamed on the store")
	}
}

// An outage between two pings, or a slow store, is told once a minute.
func TestRequestsWithoutTheStoreAreTold(t *testing.T) {
	var log strings.Builder
	h := &health{
		logger:  slog.New(slog.NewTextHandler(&log, nil)),
		metrics: telemetry.New(telemetry.Build{}, telemetry.Options{}),
	}
	at := time.Unix(1e9, 0)
	expect := func(after time.Duration, lines int) {
		t.Helper()
		at = at.Add(after)
		h.tellUndecided(at)
		if got := strings.Count(log.String(), "\n"); got != lines {
			t.Errorf("%d lines, want %d:\n%s", got, lines, log.String())
		}
	}
	fails := func(reason store.Reason) {
		v := headgate.Verdict{By: verdict.ByFailureMode, Degraded: reason}
		h.metrics.Decided(nil, &headgate.Response{Verdicts: []headgate.Verdict{v}}, time.Millisecond)
	}
	expect(0, 0)
	fails(store.Timeout)
	fails(store.Timeout)
	expect(pingEvery, 1)
	if !strings.Contains(log.String(), "requests.store_timeout=2") {
		t.Errorf("no number in %s", log.String())
	}
	expect(2*undecidedEvery, 1)
	fails(store.Timeout)
	expect(pingEvery, 2)
	fails(store.Unavailable)
	expect(pingEvery, 2) // within a minute
	expect(undecidedEvery, 3)
	away := error(&store.Error{Op: "ping", Reason: store.Unavailable})
	h.storeErr.Store(&away)
	for range 57 { // over several pings: all of them are told when the outage has ended
		fails(store.Unavailable)
		expect(pingEvery, 3)
	}
	h.storeErr.Store(nil)
	expect(undecidedEvery, 4)
	if !strings.Contains(log.String(), "requests.store_unavailable=57") {
		t.Errorf("not the whole outage in %s", log.String())
	}
	expect(undecidedEvery, 4)
}

func TestHints(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	set := testrules.Load(t, "domain: "+quickstart+"\ndescriptors:\n  - {key: api_key}\n")
	for _, tt := range []struct {
		set          *rules.Set
		callerLimits bool
		want         int
	}{{set, true, 2}, {nil, true, 1}, {set, false, 1}} {
		var b strings.Builder
		printHints(&b, l, tt.set, hinted{callerLimits: tt.callerLimits})
		if got := strings.Count(b.String(), "curl -i"); got != tt.want || !strings.Contains(b.String(), l.Addr().String()) {
			t.Errorf("%s", b.String())
		}
	}
}

func TestListenTakesOverAnAbandonedSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "hg")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	addr := "unix://" + dir + "/s"
	first, err := listen(t.Context(), "http-addr", addr)
	if err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		if conn, err := first.Accept(); err == nil {
			conn.Close()
		}
	})
	if second, err := listen(t.Context(), "http-addr", addr); err == nil {
		second.Close()
		t.Error("took a socket that is in use")
	}
	accepting.Wait()
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	first.Close()
	second, err := listen(t.Context(), "http-addr", addr)
	if err != nil {
		t.Fatalf("did not take an abandoned socket: %v", err)
	}
	second.Close()
	if err := os.WriteFile(dir+"/s", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := listen(t.Context(), "http-addr", addr); err == nil {
		l.Close()
		t.Error("removed a file that is no socket")
	}
}

func TestNewLogger(t *testing.T) {
	for _, tt := range []struct{ level, format, want string }{
		{"info", "text", "level=INFO msg=hello\n"},
		{"debug", "json", `"level":"DEBUG","msg":"detail"`},
		{"error", "text", ""},
	} {
		var b strings.Builder
		l := NewLogger(&b, &config.Settings{LogLevel: tt.level, LogFormat: tt.format})
		l.Debug("detail")
		l.Info("hello")
		if !strings.Contains(b.String(), tt.want) || (tt.want == "") != (b.String() == "") {
			t.Errorf("%s %s: %q", tt.level, tt.format, b.String())
		}
	}
}

// A duration has its unit in both formats, and a number stays one.
func TestLogsHaveUnits(t *testing.T) {
	for format, want := range map[string]string{
		"json": `"lasts":"7.835s","drill":{"delay":"1s"},"retry_after":1.5}`,
		"text": "lasts=7.835s drill.delay=1s retry_after=1.5\n",
	} {
		var b strings.Builder
		l := NewLogger(&b, &config.Settings{LogLevel: "info", LogFormat: format})
		l.Info("begun", "lasts", 7835*time.Millisecond, slog.Group("drill", "delay", time.Second), "retry_after", 1.5)
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: %s lacks %s", format, b.String(), want)
		}
	}
}
