package script

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// TestLogsDoNotStopTheProcess: whatever becomes of who reads the log, decisions go on, lines
// are dropped and counted, and the first SIGTERM ends the process in order: all events are
// in their files, and the node has left the fleet, which comes after its leases.
func TestLogsDoNotStopTheProcess(t *testing.T) {
	for _, tt := range []struct {
		name string
		// hurt does something to the pipe of the log while the process serves.
		hurt func(t *testing.T, r, w *os.File)
	}{
		{"stalled", fill},
		{"gone", func(_ *testing.T, r, _ *os.File) { r.Close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			redis := testserver.Redis(t, testserver.RedisConfig{})
			r, w := pipe(t)
			events := t.TempDir()
			s := startLogging(t, w, "--rules", writeRules(t, userRules), "--store", redis.URL(), "--store-budget=10s",
				"--audit-files=file://"+events+"?compress=none", "--audit-sample=1")
			tt.hurt(t, r, w)
			const asked = 50
			for i := range asked {
				allowed(t, s)
				if i%10 == 0 { // each time some lines more
					if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
						t.Fatal(err)
					}
				}
			}
			if tt.name == "gone" {
				eventually.True(t, "lines are dropped", func() bool { return dropped(t, s) > 0 })
			}
			if nodes := roster(t, redis); nodes != 1 {
				t.Fatalf("%d nodes in the fleet, want this one", nodes)
			}
			if code, err := s.stop(syscall.SIGTERM); code != 0 || err != nil {
				t.Errorf("exit code %d, %v", code, err)
			}
			if got := lines(t, events); got != asked {
				t.Errorf("%d events in files, want %d", got, asked)
			}
			if nodes := roster(t, redis); nodes != 0 {
				t.Errorf("%d nodes in the fleet after the end", nodes)
			}
		})
	}
}

// TestLogGoesOn: a process starts though its log is full, and when somebody reads it again, it
// says how many lines are missing.
func TestLogGoesOn(t *testing.T) {
	r, w := pipe(t)
	fill(t, r, w)
	env := environment()
	for i := range 12 { // each is a line of 100 KB, because it is no setting
		env = append(env, fmt.Sprintf("HEADGATE_%d%s=1", i, strings.Repeat("X", 100_000)))
	}
	s, err := startServerWith(w, t.TempDir(), env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	missing := dropped(t, s)
	if missing == 0 {
		t.Fatal("no line was dropped")
	}
	found := make(chan string, 1)
	go func() {
		defer close(found)
		told := regexp.MustCompile(`level=WARN msg="(\d+) log lines were dropped`)
		for text := bufio.NewReader(r); ; {
			line, err := text.ReadString('\n')
			if match := told.FindStringSubmatch(line); match != nil {
				found <- match[1]
				_, _ = io.Copy(io.Discard, text)
			}
			if err != nil {
				return
			}
		}
	}()
	if got := <-found; got != strconv.Itoa(missing) {
		t.Errorf("the log says that %q lines are missing, and %d are", got, missing)
	}
	if code, err := s.stop(syscall.SIGTERM); code != 0 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
}

// TestNobodyReadsTheOutput: a process whose standard output has no reader starts, serves and
// ends like others.
func TestNobodyReadsTheOutput(t *testing.T) {
	socket := filepath.Join(shortDir(t), "h.sock")
	r, w := pipe(t)
	r.Close()
	cmd := exec.CommandContext(t.Context(), serving, "serve", "--hints", "--http-addr=unix://"+socket, "--grpc-addr=127.0.0.1:0", "--ops-addr=127.0.0.1:0", "--drain-delay=0s")
	var errs bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = environment(), w, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	eventually.True(t, "it decides", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("ended: %v\n%s", err, errs.String())
		default:
		}
		out, _ := exec.Command("headgate", "check", "--addr=unix://"+socket, "--key=k", "--limit=1000000", "--window=1h").Output()
		return strings.HasPrefix(string(out), "allowed")
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, errs.String())
	}
}

// TestCommandsEndQuietly: a command whose output nobody reads any more ends as others do, by
// SIGPIPE, and says nothing about it.
func TestCommandsEndQuietly(t *testing.T) {
	r, w := pipe(t)
	r.Close()
	cmd := exec.CommandContext(t.Context(), "headgate", "rules", "schema")
	var errs bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = environment(), w, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE || errs.Len() > 0 {
		t.Errorf("%v: %q", err, errs.String())
	}
}

// TestFailedStartIsTold: why a process does not start is on its standard error when it has
// ended.
func TestFailedStartIsTold(t *testing.T) {
	s := start(t)
	out, err := exec.Command(serving, "serve", "--ops-addr=127.0.0.1:0", "--grpc-addr=127.0.0.1:0", "--http-addr="+s.addrs["http"]).CombinedOutput()
	if want := "headgate: hint: another process listens there"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v, no %q in\n%s", err, want, out)
	}
}

// pipe returns a pipe that is full after 4 KiB.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, pipeSize); err != nil {
		t.Fatal(err)
	}
	return r, w
}

const pipeSize = 4096

// fill writes to a pipe until it is full.
func fill(t *testing.T, r, w *os.File) {
	t.Helper()
	go func() {
		// One by one, because a write that does not fit into a page leaves the rest of it free.
		for err := error(nil); err == nil; { // until who reads has gone
			_, err = w.Write([]byte("x"))
		}
	}()
	eventually.True(t, "the pipe is full", func() bool {
		n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		if err != nil {
			t.Fatal(err)
		}
		return n == pipeSize
	})
}

// startLogging starts headgate serve with a pipe for its log.
func startLogging(t *testing.T, logs *os.File, args ...string) *server {
	t.Helper()
	s, err := startServerWith(logs, t.TempDir(), environment(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

// allowed asks s for a decision.
func allowed(t *testing.T, s *server) {
	t.Helper()
	response, err := http.Post("http://"+s.addrs["http"]+"/v1/check", "application/json", strings.NewReader(`{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"42"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
}

// dropped returns how many lines of its log s has dropped.
func dropped(t *testing.T, s *server) int {
	t.Helper()
	n, ok := metric(t, s, "headgate_log_lines_dropped_total")
	if !ok {
		t.Fatal("no metric of lines that were dropped")
	}
	return n
}

// metric returns what s has counted in a series, by its name and labels; ok is false when
// there is no such series.
func metric(t *testing.T, s *server, series string) (n int, ok bool) {
	t.Helper()
	for line := range strings.Lines(get(t, "http://"+s.addrs["ops"]+"/metrics")) {
		if text, found := strings.CutPrefix(line, series+" "); found {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(value), true
		}
	}
	return 0, false
}

// roster returns how many nodes are in the fleet, by what Redis has of it.
func roster(t *testing.T, redis *testserver.RedisServer) int {
	t.Helper()
	found := 0
	for _, key := range redis.MustDo("KEYS", "*nodes").([]any) {
		found += int(redis.MustDo("ZCARD", fmt.Sprint(key)).(int64))
	}
	return found
}

// lines returns how many lines the files of a folder have.
func lines(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(text, []byte("\n"))
	}
	return n
}
