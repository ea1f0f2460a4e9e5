package script

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience bounds every wait for something that must happen; a test that waits
// that long has failed.
const patience = 60 * time.Second

// server is a running `headgate serve` or `headgate proxy`.
type server struct {
	addrs map[string]string // by the names of the fronts: http, grpc, ops and so on
	cmd   *exec.Cmd
	out   string // what it printed once ready
	log   log
	ended chan struct{} // closed when the process has ended
	err   error         // how it ended; read after ended
}

// startServer starts headgate serve with args on free ports, in dir, and
// returns when it is ready. Arguments come last, so that they win.
func startServer(dir string, env []string, args ...string) (*server, error) {
	return startServerWith(nil, dir, env, args...)
}

// startServerWith is startServer for a process that logs to a pipe of the test's; nil is
// one that is read.
func startServerWith(logs *os.File, dir string, env []string, args ...string) (*server, error) {
	return startCommand(logs, dir, env, append([]string{"serve", "--grpc-addr=127.0.0.1:0"}, args...)...)
}

// startCommand is startServerWith for serve or proxy, which is the first of args.
func startCommand(logs *os.File, dir string, env []string, args ...string) (*server, error) {
	command := args[0]
	args = append([]string{command, "--http-addr=127.0.0.1:0", "--ops-addr=127.0.0.1:0", "--drain-delay=0s"}, args[1:]...)
	s := &server{cmd: exec.Command(serving, args...), ended: make(chan struct{})}
	s.cmd.Dir, s.cmd.Env = dir, env
	s.log.changed = make(chan struct{})
	var stderr io.Reader = strings.NewReader("")
	if logs != nil {
		s.cmd.Stderr = logs
	} else if pipe, err := s.cmd.StderrPipe(); err != nil {
		return nil, err
	} else {
		stderr = pipe
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan string, 1)
	var reading sync.WaitGroup
	reading.Go(func() { s.log.read(stderr) })
	reading.Go(func() { readReady(stdout, ready) })
	go func() {
		reading.Wait()
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	select {
	case line := <-ready:
		s.out = line
		if s.addrs = readAddrs(line); s.addrs["ops"] != "" {
			return s, nil
		}
	case <-s.ended:
	case <-time.After(patience):
	}
	s.kill()
	return nil, fmt.Errorf("headgate %s was not ready: %s%s", command, s.out, s.log.text())
}

// readAddrs reads "headgate ready http=ADDR grpc=ADDR ops=ADDR", or the same as a line of
// a log in JSON; it returns nil for another line.
func readAddrs(line string) map[string]string {
	var logged map[string]string
	if json.Unmarshal([]byte(line), &logged) == nil && logged["msg"] == "headgate ready" {
		return logged
	}
	rest, ok := strings.CutPrefix(line, "headgate ready ")
	if !ok {
		return nil
	}
	addrs := map[string]string{}
	for _, field := range strings.Fields(rest) {
		name, addr, _ := strings.Cut(field, "=")
		addrs[name] = addr
	}
	return addrs
}

// readReady sends the first line of r, and "" if there is none.
func readReady(r io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(r)
	lines.Scan()
	ready <- lines.Text()
	// The process must never wait for a reader.
	io.Copy(io.Discard, r)
}

// kill ends the process at once.
func (s *server) kill() {
	s.cmd.Process.Kill()
	<-s.ended
}

// stop asks the process to end and returns its exit code.
func (s *server) stop(signal syscall.Signal) (int, error) {
	if err := s.cmd.Process.Signal(signal); err != nil {
		return 0, err
	}
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.kill()
		return 0, fmt.Errorf("did not end after signal %v: %s", signal, s.log.text())
	}
	var exit *exec.ExitError
	if errors.As(s.err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, s.err
}

// log collects lines, and wakes those that wait for one.
type log struct {
	mu      sync.Mutex
	lines   []string
	changed chan struct{} // closed and replaced with every line
	seen    int           // lines that await has looked at
}

func (l *log) read(r io.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		l.mu.Lock()
		l.lines = append(l.lines, lines.Text())
		close(l.changed)
		l.changed = make(chan struct{})
		l.mu.Unlock()
	}
}

func (l *log) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n") + "\n"
}

// mark returns how many lines awaits have passed, and pass says how many.
func (l *log) mark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

func (l *log) pass(lines int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = lines
}

// await returns when a line that no await has passed matches pattern.
func (l *log) await(pattern *regexp.Regexp, ended <-chan struct{}) error {
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		for l.seen < len(l.lines) {
			l.seen++
			if pattern.MatchString(l.lines[l.seen-1]) {
				l.mu.Unlock()
				return nil
			}
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ended:
			return fmt.Errorf("ended without %q in the log:\n%s", pattern, l.text())
		case <-deadline:
			return fmt.Errorf("no %q in the log:\n%s", pattern, l.text())
		}
	}
}

// environment returns the environment of the test without settings.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HEADGATE_") {
			env = append(env, v)
		}
	}
	return env
}

// reloaded matches the line that ends a reload, however it ended.
var reloaded = regexp.MustCompile("rules in force|rules refused")
