package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	waits "github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/view"
)

func TestEventLines(t *testing.T) {
	denied := view.Event{TS: 1795348805123, Outcome: "denied", Domain: "api", Rule: "api.tenant", Key: "tenant:acme", Limit: 100, Used: 100, Hits: 1, RetryAfterMS: 42000, ClientIP: "192.0.2.7"}
	named, cheap, unknown, evil := denied, denied, denied, denied
	named.LimitName, named.Tier, named.TraceID = "per minute", "pro", "abc123"
	cheap.Outcome, cheap.Hits, cheap.Degraded, cheap.RetryAfterMS = "degraded_allowed", 0, "store_timeout", 0
	unknown.Outcome, unknown.Rule, unknown.Key, unknown.Limit, unknown.Used, unknown.RetryAfterMS = "unknown_domain", "", "", 0, 0, 0
	evil.Key, evil.Rule, evil.Outcome = "user:\x1b[2J\r\nfake line\u202e\u009b", "r\x07", "den\x1bied"
	for _, tt := range []struct {
		e      view.Event
		colour bool
		want   string
	}{
		{denied, false, "12:00:05.123Z  denied            api.tenant  tenant:acme  100/100  retry after 42s  from 192.0.2.7"},
		{named, false, "12:00:05.123Z  denied            api.tenant/per minute  tenant:acme  100/100  retry after 42s  tier pro  from 192.0.2.7  trace abc123"},
		{cheap, false, "12:00:05.123Z  degraded_allowed  api.tenant  tenant:acme  100/100  hits 0  degraded store_timeout  from 192.0.2.7"},
		{unknown, false, "12:00:05.123Z  unknown_domain    api    from 192.0.2.7"},
		{evil, false, "12:00:05.123Z  den\ufffdied           r\ufffd  user:\ufffd[2J\ufffd\ufffdfake line\ufffd\ufffd  100/100  retry after 42s  from 192.0.2.7"},
		{denied, true, "\x1b[2m12:00:05.123Z\x1b[0m  \x1b[31mdenied          \x1b[0m  api.tenant  tenant:acme  100/100  retry after 42s  from 192.0.2.7"},
	} {
		if got := eventLine(&tt.e, tt.colour); got != tt.want {
			t.Errorf("got\n%q, want\n%q", got, tt.want)
		}
	}
}

// adminServer is the real admin API with what a node shows, and tokens of two scopes.
func adminServer(t *testing.T, watch *adminapi.Watch) (address adminAddress, server *httptest.Server) {
	t.Helper()
	dir := t.TempDir()
	text := "tokens:\n"
	for _, scope := range []adminapi.Scope{adminapi.Read, adminapi.Write} {
		token, lines, err := adminapi.NewToken(scope.String(), scope, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		text += lines
		if err := os.WriteFile(filepath.Join(dir, scope.String()), []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "tokens.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := adminapi.LoadTokens(filepath.Join(dir, "tokens.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	handler, err := adminapi.New(adminapi.Options{Tokens: tokens, Watch: watch})
	if err != nil {
		t.Fatal(err)
	}
	server = httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return adminAddress{Admin: server.URL, AdminTokenFile: filepath.Join(dir, "write")}, server
}

// eventsOf is what a node has to tell of events; no test asks for those of before.
type eventsOf struct{ adminapi.Events }

func (eventsOf) Redact(e view.Event) view.Event { return e }

// toldEvents tells of events, one after the other, and then of no more.
type toldEvents struct {
	events  chan view.Event
	dropped uint64
}

func (f *toldEvents) Next(ctx context.Context) (view.Event, uint64, error) {
	select {
	case e, ok := <-f.events:
		if !ok {
			return e, 0, io.EOF
		}
		return e, f.dropped, nil
	case <-ctx.Done():
		return view.Event{}, 0, ctx.Err()
	}
}

func (f *toldEvents) Close() {}

// A stream that ends is opened again, what was dropped is said, and so is why.
func TestTailGoesOn(t *testing.T) {
	var streams atomic.Int64
	address, _ := adminServer(t, &adminapi.Watch{Events: eventsOf{}, Follow: func(f view.EventFilter) (adminapi.Follower, error) {
		n := streams.Add(1)
		if f != (view.EventFilter{Rule: "api.a b&c", Outcome: "over"}) {
			t.Errorf("%+v", f)
		}
		told := &toldEvents{events: make(chan view.Event, 1), dropped: uint64(n - 1)}
		told.events <- view.Event{TS: n, EventID: fmt.Sprint(n), Rule: "r", Key: "k", Hits: 1, Outcome: "denied"}
		close(told.events)
		return told, nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs bytes.Buffer
	c := tailCmd{Rule: "api.a b&c", Outcome: "over"}
	tail := tailing{out: &out, err: &errs}
	tail.show = func(data []byte) error {
		if bytes.Contains(data, []byte(`"event_id":"2"`)) {
			cancel()
		}
		return tail.json(data)
	}
	if err := tail.follow(ctx, []adminAddress{address}, c.path()); err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	var e view.Event
	if len(lines) != 2 || json.Unmarshal([]byte(lines[1]), &e) != nil || e.EventID != "2" {
		t.Errorf("%q", lines)
	}
	if text := errs.String(); !strings.Contains(text, "headgate: the admin API has ended the stream; asking again in ") || !strings.Contains(text, "headgate: 1 events were dropped because") || tail.dropped != 1 {
		t.Errorf("%s", text)
	}
}

// What a node says is wrong with it does not pass for what others say.
func TestTailTellsWhatIsWrongOnOneLine(t *testing.T) {
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"detail":"away\nheadgate: gate-2: \u202egone"}`)
	}))
	defer evil.Close()
	address, _ := adminServer(t, nil)
	address.Admin = evil.URL
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs bytes.Buffer
	tail := &tailing{out: io.Discard, err: &errs, several: true}
	go func() {
		defer cancel()
		waits.Holds(func() bool { // or the test fails by what it has not seen
			tail.mu.Lock()
			defer tail.mu.Unlock()
			return strings.Contains(errs.String(), "asking again")
		})
	}()
	if err := tail.follow(ctx, []adminAddress{address, address}, "events/live?"); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(errs.String()) {
		if !strings.Contains(line, "away\ufffdheadgate: gate-2: \ufffdgone; asking again in ") {
			t.Errorf("%q", line)
		}
	}
	if errs.Len() == 0 {
		t.Error("nothing is told")
	}
}

// Who follows fewer nodes than there are is told so; and one of several nodes that refuses ends
// alone.
func TestTailOfSeveral(t *testing.T) {
	node := func(name string, live int) adminAddress {
		address, _ := adminServer(t, &adminapi.Watch{
			Fleet:  func() view.Fleet { return view.Fleet{Live: live} },
			Events: eventsOf{}, Follow: func(view.EventFilter) (adminapi.Follower, error) {
				told := &toldEvents{events: make(chan view.Event, 1)}
				told.events <- view.Event{EventID: name, Node: name, Rule: "r", Key: "k", Hits: 1, Outcome: "denied"}
				return told, nil
			},
		})
		return address
	}
	first, second, refused := node("gate-1", 4), node("gate-2", 4), node("gate-3", 4)
	refused.AdminTokenFile = first.AdminTokenFile
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs bytes.Buffer
	tail := &tailing{out: &out, err: &errs, several: true}
	tail.show = tail.line
	go func() {
		defer cancel()
		waits.Holds(func() bool { // or the test fails by what it has not seen
			tail.mu.Lock()
			defer tail.mu.Unlock()
			return strings.Contains(errs.String(), "live") && strings.Contains(errs.String(), "not known") && strings.Contains(out.String(), "gate-1") && strings.Contains(out.String(), "gate-2")
		})
	}()
	if err := tail.follow(ctx, []adminAddress{first, second, refused}, "events/live?"); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"gate-1        ", "gate-2        "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q lacks %q", out.String(), want)
		}
	}
	for _, want := range []string{"headgate: 4 nodes are live, and 3 followed\nheadgate: hint: ", "headgate: " + refused.label() + ": the token is not known"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q lacks %q", errs.String(), want)
		}
	}
}

// Nobody reads: that is no trouble. What cannot be asked is, at once.
func TestTailEnds(t *testing.T) {
	address, server := adminServer(t, &adminapi.Watch{Events: eventsOf{}, Follow: func(view.EventFilter) (adminapi.Follower, error) {
		told := &toldEvents{events: make(chan view.Event, 1)}
		told.events <- view.Event{Outcome: "denied"}
		return told, nil
	}})
	run := func(out io.Writer, args ...string) (int, string) {
		var errs bytes.Buffer
		return Run(append([]string{"tail", "--admin", server.URL, "--admin-token-file", address.AdminTokenFile}, args...), nil, out, &errs), errs.String()
	}
	if code, errs := run(brokenPipe{}); code != exitOK || errs != "" {
		t.Errorf("code %d: %s", code, errs)
	}
	if code, errs := run(brokenPipe{}, "--json"); code != exitOK || errs != "" {
		t.Errorf("code %d: %s", code, errs)
	}
	if code, errs := run(fullDisk{}); code != exitUsage || !strings.Contains(errs, "headgate: no space left") {
		t.Errorf("code %d: %s", code, errs)
	}
	if code, errs := run(io.Discard, "--outcome", "x"); code != exitUsage || !strings.HasPrefix(errs, "headgate: outcome: no such outcome\nheadgate: hint: one of over, ") {
		t.Errorf("code %d: %s", code, errs)
	}
	if code, errs := run(io.Discard, "--key", "x", "--admin-token-file", filepath.Join(filepath.Dir(address.AdminTokenFile), "read")); code != exitUsage || !strings.Contains(errs, "finds keys by their hash") {
		t.Errorf("code %d: %s", code, errs)
	}
	if code, errs := run(io.Discard, "--admin", "http://127.0.0.1:1"); code != exitUsage || !strings.Contains(errs, "hint: is it served at --admin?") {
		t.Errorf("code %d: %s", code, errs)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "event: decision\ndata: <html>\n\n")
	}))
	defer other.Close()
	if code, errs := run(io.Discard, "--admin", other.URL); code != exitUsage || !strings.Contains(errs, "does not say what was decided") {
		t.Errorf("code %d: %s", code, errs)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Err: syscall.EPIPE}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// FuzzEventReader: what was sent is read, however it is divided; and no text of others
// makes more of it than its lines.
func FuzzEventReader(f *testing.F) {
	f.Add("decision", `{"a":1}`, "retry: 5\n\n: still here\n\n", 3)
	f.Add("", "", "data: x\n\ndata:y\nevent:\r\n\n", 1)
	f.Fuzz(func(t *testing.T, name, data, noise string, step int) {
		if strings.ContainsAny(name+data, "\r\n") || step < 1 {
			return
		}
		text := noise + "\n\nevent: " + name + "\nid: 7\ndata: " + data + "\n\n"
		r := newEventReader(&stepReader{text, step})
		heard := 0
		r.heard = func() { heard++ }
		var last serverEvent
		events := 0
		for {
			e, err := r.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			last, events = e, events+1
		}
		if last.name != name || string(last.data) != data {
			t.Errorf("%q %q, of %q", last.name, last.data, text)
		}
		if lines := strings.Count(text, "\n"); heard > lines || events > lines {
			t.Errorf("%d lines heard, %d events of %d lines", heard, events, lines)
		}
	})
}

// stepReader reads a text in steps.
type stepReader struct {
	text string
	step int
}

func (r *stepReader) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	n := copy(p, r.text[:min(r.step, len(r.text))])
	r.text = r.text[n:]
	return n, nil
}

// An event that is longer than any is not held in memory.
func TestEventReaderIsBounded(t *testing.T) {
	r := newEventReader(io.MultiReader(strings.NewReader("data: "), endless{}))
	if _, err := r.next(); err == nil || errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
