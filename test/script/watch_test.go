package script

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/internal/testserver"
)

// operator is who asks the admin API, and the file of tokens in which it is listed.
type operator struct{ token, tokens string }

func newOperator(t *testing.T) operator {
	t.Helper()
	dir := t.TempDir()
	o := operator{filepath.Join(dir, "token"), filepath.Join(dir, "tokens.yaml")}
	token, err := exec.Command("headgate", "admin", "token", "ann", "--scope", "write", "--out", o.tokens).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.token, token, 0o600); err != nil {
		t.Fatal(err)
	}
	return o
}

// watch starts a server whose limits are used up, and says how its admin API is asked.
func (o operator) watch(t *testing.T, args ...string) (s *server, env []string) {
	t.Helper()
	rules := writeRules(t, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 0}}]\n")
	s = start(t, append(args, "--rules", rules, "--admin-addr=127.0.0.1:0", "--admin-tokens", o.tokens)...)
	return s, append(environment(), "HEADGATE_ADMIN=http://"+s.addrs["admin"], "HEADGATE_ADMIN_TOKEN_FILE="+o.token)
}

// watched is a server whose limits are used up, and how its admin API is asked.
func watched(t *testing.T, args ...string) (s *server, env []string) {
	t.Helper()
	return newOperator(t).watch(t, args...)
}

// deny has a request denied every now and then until done is closed.
func deny(t *testing.T, s *server, done <-chan struct{}) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		response, err := http.Post("http://"+s.addrs["http"]+"/v1/check", "application/json", strings.NewReader(`{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}`))
		if err != nil {
			t.Error(err)
			return
		}
		response.Body.Close()
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

// TestTailUntilInterrupted: decisions are shown as they are made, until SIGINT, and until
// nobody reads them; neither is a failure.
func TestTailUntilInterrupted(t *testing.T) {
	s, env := watched(t)
	done := make(chan struct{})
	var denying sync.WaitGroup
	denying.Go(func() { deny(t, s, done) })
	defer denying.Wait()
	defer close(done)
	for _, tt := range []struct {
		name string
		end  func(cmd *exec.Cmd, out io.Closer) error
	}{
		{"interrupted", func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Signal(syscall.SIGINT) }},
		{"unread", func(_ *exec.Cmd, out io.Closer) error { return out.Close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), serving, "tail", "--json", "--outcome", "denied", "--key", "ann")
			var errs bytes.Buffer
			cmd.Env, cmd.Stderr = env, &errs
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lost := time.AfterFunc(patience, func() { cmd.Process.Kill() })
			defer lost.Stop()
			line, err := bufio.NewReader(out).ReadBytes('\n')
			var e struct{ Key, Rule, Outcome string }
			if err != nil || json.Unmarshal(line, &e) != nil || e.Key != "user:ann" || e.Rule != "d.user" || e.Outcome != "denied" {
				t.Errorf("%s, %v", line, err)
			}
			if err := tt.end(cmd, out); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err != nil || errs.Len() > 0 {
				t.Errorf("%v: %s", err, errs.String())
			}
		})
	}
}

// TestTopOfAFleet: a node that is asked shows the others that use its store, and their
// keys, until they go.
func TestTopOfAFleet(t *testing.T) {
	redis := testserver.Redis(t, testserver.RedisConfig{})
	key := filepath.Join(t.TempDir(), "key") // by which both hash keys
	if err := os.WriteFile(key, []byte(strings.Repeat("not-a-real-secret", 2)), 0o600); err != nil {
		t.Fatal(err)
	}
	asked, env := watched(t, "--store", "redis://"+redis.Addr+"/0", "--node-name", "gate-1", "--audit-hash-key", key)
	other, _ := watched(t, "--store", "redis://"+redis.Addr+"/0", "--node-name", "gate-2", "--audit-hash-key", key)
	done := make(chan struct{})
	var denying sync.WaitGroup
	denying.Go(func() { deny(t, other, done) })
	quiet := sync.OnceFunc(func() {
		close(done)
		denying.Wait()
	})
	defer quiet()
	var s struct {
		Keys struct {
			Denied struct {
				Nodes int
				Keys  []struct{ Rule string }
			}
		}
		Fleet struct {
			Live  int
			Nodes []struct {
				Name string
				Self bool
			}
		}
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for late := time.After(patience); !holds(); {
			select {
			case <-tick.C:
			case <-late:
				t.Fatalf("%s: %+v", what, s)
			}
			cmd := exec.Command(serving, "top", "--json")
			cmd.Env = env
			text, err := cmd.Output()
			s.Fleet.Nodes, s.Keys.Denied.Keys = nil, nil
			if err != nil || json.Unmarshal(text, &s) != nil {
				t.Fatalf("%v: %s", err, text)
			}
		}
	}
	until("two nodes, and what the other denies", func() bool {
		return len(s.Fleet.Nodes) == 2 && s.Fleet.Nodes[0].Self && s.Fleet.Nodes[1].Name == "gate-2" && s.Keys.Denied.Nodes == 2 && len(s.Keys.Denied.Keys) == 1
	})
	quiet()
	if code, err := other.stop(syscall.SIGTERM); code != 0 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	until("one node", func() bool { return len(s.Fleet.Nodes) == 1 })
	if code, err := asked.stop(syscall.SIGTERM); code != 0 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
}

// TestTailOfSeveralNodes: what each of them decides is shown once, though one has two addresses and
// nobody answers at another.
func TestTailOfSeveralNodes(t *testing.T) {
	who := newOperator(t)
	first, env := who.watch(t, "--node-name", "gate-1")
	second, _ := who.watch(t, "--node-name", "gate-2")
	done := make(chan struct{})
	var denying sync.WaitGroup
	denying.Go(func() { deny(t, first, done) })
	denying.Go(func() { deny(t, second, done) })
	defer denying.Wait()
	defer close(done)
	_, port, _ := strings.Cut(first.addrs["admin"], ":")
	cmd := exec.CommandContext(t.Context(), serving, "tail", "--json", "--outcome", "denied", "http://localhost:"+port, "http://"+second.addrs["admin"], "http://127.0.0.1:1")
	var errs bytes.Buffer
	cmd.Env, cmd.Stderr = env, &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lost := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer lost.Stop()
	ids, nodes := map[string]bool{}, map[string]int{}
	for lines := bufio.NewScanner(out); min(nodes["gate-1"], nodes["gate-2"]) < 20 && lines.Scan(); {
		var e struct {
			ID   string `json:"event_id"`
			Node string
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || ids[e.ID] {
			t.Fatalf("%v, or shown twice: %s", err, lines.Text())
		}
		ids[e.ID] = true
		nodes[e.Node]++
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(errs.String(), "headgate: http://127.0.0.1:1: ask the admin API: ") || len(nodes) != 2 {
		t.Errorf("%v, of %v: %s", err, nodes, errs.String())
	}
}

// pseudoTerminal returns both ends of a terminal of a size.
func pseudoTerminal(t *testing.T, columns, rows uint16) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("this machine has no terminals: %v", err)
	}
	t.Cleanup(func() { ours.Close() })
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	resize(t, ours, columns, rows)
	return ours, theirs
}

func resize(t *testing.T, terminal *os.File, columns, rows uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		t.Fatal(err)
	}
}

// screen is what a person sees. A program sends only what has changed since, a letter of a
// word perhaps, so what was sent says nothing without a terminal that draws it.
type screen struct {
	mu       sync.Mutex
	terminal *vt.Emulator
	changed  chan struct{}
}

// draw shows what comes from ours, and answers what the program asks of its terminal.
func draw(t *testing.T, ours *os.File, columns, rows int) *screen {
	s := &screen{terminal: vt.NewEmulator(columns, rows), changed: make(chan struct{}, 1)}
	// By its pipe, because Emulator.Close races with Read.
	t.Cleanup(func() { s.terminal.InputPipe().(io.Closer).Close() })
	go io.Copy(ours, s.terminal)
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := ours.Read(buffer)
			s.change(func() { s.terminal.Write(buffer[:n]) })
			if err != nil {
				return
			}
		}
	}()
	return s
}

func (s *screen) change(what func()) {
	s.mu.Lock()
	what()
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// await waits until something holds of what is shown.
func (s *screen) await(t *testing.T, what string, holds func(*vt.Emulator) bool) {
	t.Helper()
	for late := time.After(patience); ; {
		s.mu.Lock()
		held, text := holds(s.terminal), s.terminal.String()
		s.mu.Unlock()
		if held {
			return
		}
		select {
		case <-s.changed:
		case <-late:
			t.Fatalf("no %s:\n%s", what, text)
		}
	}
}

// awaitText waits until a text can be read anywhere.
func (s *screen) awaitText(t *testing.T, text string) {
	t.Helper()
	s.await(t, text, func(shown *vt.Emulator) bool { return strings.Contains(shown.String(), text) })
}

// TestTopOnATerminal looks at a node as a person does, and leaves the terminal as it was.
func TestTopOnATerminal(t *testing.T) {
	s, env := watched(t)
	done := make(chan struct{})
	var denying sync.WaitGroup
	denying.Go(func() { deny(t, s, done) })
	defer denying.Wait()
	defer close(done)
	ours, theirs := pseudoTerminal(t, 80, 24)
	cmd := exec.CommandContext(t.Context(), serving, "top")
	cmd.Env = append(env, "TERM=xterm-256color")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	lost := time.AfterFunc(2*patience, func() { cmd.Process.Kill() })
	defer lost.Stop()
	shown := draw(t, ours, 80, 24)
	press := func(keys string) {
		t.Helper()
		if _, err := ours.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
	shown.await(t, "screen of its own", (*vt.Emulator).IsAltScreen)
	shown.awaitText(t, "[rules]")
	shown.awaitText(t, "d.user")
	press("\t")
	shown.awaitText(t, "[keys]")
	shown.awaitText(t, "user:ann")
	shown.change(func() { shown.terminal.Resize(120, 40) })
	resize(t, ours, 120, 40)
	press("/nobody")
	shown.awaitText(t, "nobody")
	press("\x1b")
	shown.awaitText(t, "q quit") // else what follows would belong to the escape
	press("\x1b[D\x1b[D")        // left, twice
	shown.awaitText(t, "[fleet]")
	press("q")
	shown.await(t, "screen as it was", func(shown *vt.Emulator) bool { return !shown.IsAltScreen() })
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
