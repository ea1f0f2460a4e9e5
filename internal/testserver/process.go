package testserver

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
)

const (
	// readyTimeout bounds how long a server may take to answer after it was
	// started. It is generous because machines that run tests are busy.
	readyTimeout = 60 * time.Second
	// stopTimeout is how long a server may take to end by itself: longer than any
	// takes, because one that is killed meanwhile has not done what it does at its end.
	stopTimeout = 30 * time.Second
	// outputKept bounds how much of a server's output is kept for messages.
	outputKept = 256 << 10
)

// Binary returns the path of the named server: from PATH, else from /usr/sbin or
// .tools/bin at the root of this module. Where it is in neither place it skips
// the test, or fails it when the servers are required.
func Binary(t testing.TB, name string) string {
	t.Helper()
	skipUnlessWanted(t)
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	folders := []string{"/usr/sbin"} // which is not in the PATH of everyone
	if root := moduleRoot(); root != "" {
		folders = append(folders, filepath.Join(root, ".tools", "bin"))
	}
	for _, folder := range folders {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	Unavailable(t, name+" is neither in PATH nor in .tools/bin; hint: run `make deps`")
	return ""
}

// serversVariable names the variable that says whether servers are "required", or there
// are to be "none". Without it tests use the servers that they find.
const serversVariable = "HEADGATE_TEST_SERVERS"

// skipUnlessWanted skips the test where no servers are wanted, though they may be there.
func skipUnlessWanted(t testing.TB) {
	t.Helper()
	if os.Getenv(serversVariable) == "none" {
		t.Skip("no servers are wanted: " + serversVariable + "=none")
	}
}

// Unavailable skips the test for want of a server, or of what else `make deps` installs,
// or fails it when the servers are required. message says what is missing, with a hint.
func Unavailable(t testing.TB, message string) {
	t.Helper()
	skipUnlessWanted(t)
	if os.Getenv("CI") != "" || os.Getenv(serversVariable) == "required" {
		t.Fatal(message)
	}
	t.Skip(message)
}

// moduleRoot returns the nearest folder above the working directory that holds
// a go.mod, or "".
func moduleRoot() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// Ports of FreePort. They lie below those that a system gives to connections and to
// whoever listens on port 0 (from 32768 on Linux): a port that is closed for a moment,
// because its server is not up yet or is started again, is not taken by one of these.
const (
	firstPort, ports = 12000, 20000
	portTries        = 1000
	// firstMark is the first of as many UDP ports, each of which marks a TCP port as
	// taken. Nothing is sent there, and nobody else needs to be asked for one.
	firstMark = 40000
)

// FreePort returns a TCP port of 127.0.0.1 that nobody listens on. Until the test ends it
// is given to no other one, of whatever process. Who else is on the machine may still take
// it before the caller does, so start servers in a loop that tries another port.
func FreePort(t testing.TB) int {
	t.Helper()
	var err error
	for range portTries {
		i := rand.IntN(ports)
		var mark net.PacketConn
		if mark, err = net.ListenPacket("udp", net.JoinHostPort("127.0.0.1", strconv.Itoa(firstMark+i))); err != nil {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+i))); err == nil {
			l.Close()
			t.Cleanup(func() { mark.Close() })
			return firstPort + i
		}
		mark.Close()
	}
	t.Fatalf("find a free port: %v", err)
	return 0
}

// Process is a running child process of the test.
type Process struct {
	cmd    *exec.Cmd
	output *tail
	done   chan struct{} // closed when the process has ended and was waited for
	err    error         // how it ended; read after done
}

// StartProcess starts cmd and keeps the end of its output. The caller stops it
// with Kill.
func StartProcess(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, output: &tail{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.output, p.output
	dieWithParent(cmd)
	started := make(chan error)
	go func() {
		// Linux kills the child when the thread that started it ends, so this
		// goroutine keeps its thread for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.done }

// Output returns the end of what the process has written.
func (p *Process) Output() string { return p.output.String() }

// Signal sends sig to this process.
func (p *Process) Signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return
	}
	<-p.done
}

// portAttempts bounds how often a server is started anew because another process took its port
// first.
const portAttempts = 5

// startOnPort starts a server on a free port that choose is told of, and on another one where
// another process takes that first.
func startOnPort(t testing.TB, name string, choose func(port int), start func() error, kill func()) {
	t.Helper()
	var err error
	for range portAttempts {
		choose(FreePort(t))
		if err = start(); err == nil {
			return
		}
		kill()
		if !strings.Contains(err.Error(), "Address already in use") {
			break
		}
	}
	t.Fatalf("start %s: %v", name, err)
}

// restart kills a server if it runs, and starts it again.
func restart(t testing.TB, name string, kill func(), start func() error) {
	t.Helper()
	kill()
	if err := start(); err != nil {
		t.Fatalf("restart %s: %v", name, err)
	}
}

// signal sends sig to the process of a server; nil is one that does not run.
func signal(t testing.TB, name string, p *Process, sig syscall.Signal) {
	t.Helper()
	if p == nil {
		t.Fatalf("signal %v to a %s that does not run", sig, name)
	}
	if err := p.Signal(sig); err != nil {
		t.Fatalf("signal %v to %s: %v", sig, name, err)
	}
}

// Terminate asks the process to end, and kills it when it does not in time.
func (p *Process) Terminate() {
	_ = p.Signal(syscall.SIGCONT)
	_ = p.Signal(syscall.SIGTERM)
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
	}
}

// Poll calls ready until it returns nil. It gives up after a generous time or
// when the process has ended, and returns the last error.
func (p *Process) Poll(ready func() error) error {
	err := eventually.Poll(p.done, ready)
	if err == nil {
		return nil
	}
	select {
	case <-p.done:
		return fmt.Errorf("ended before it was ready: %v: %s", p.err, strings.TrimSpace(p.Output()))
	default:
		return fmt.Errorf("not ready: %w: %s", err, strings.TrimSpace(p.Output()))
	}
}

// tail is a writer that keeps the last bytes written.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(b)
	if extra := w.buf.Len() - outputKept; extra > 0 {
		w.buf.Next(extra)
	}
	return len(b), nil
}

// String returns what is kept.
func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}
