package pages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

func TestMain(m *testing.M) { testserver.RunTests(m) }

const root = "../.."

// TestCommands does what each page says.
func TestCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs programs")
	}
	program, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bash", "curl", "jq", "openssl", "python3"} {
		testserver.Binary(t, name)
	}
	met := map[int]bool{}
	for _, name := range names(t) {
		text := read(t, name)
		all, err := steps(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var runs []step
		commands := 0
		for _, s := range all {
			if i := slices.IndexFunc(notRun, func(n exception) bool {
				return s.command != "" && n.page == name && strings.HasPrefix(s.command, n.command)
			}); i >= 0 {
				met[i] = true
				continue
			}
			runs = append(runs, s)
			if s.command != "" {
				commands++
			}
		}
		if commands > 0 && !slices.Contains(elsewhere, name) {
			t.Run(strings.TrimSuffix(strings.TrimPrefix(name, "docs/"), ".md"), func(t *testing.T) {
				t.Parallel()
				r := newReader(t, program, scenes[name])
				for _, s := range runs {
					if !r.do(s) {
						return // what follows stands on it
					}
				}
			})
		}
	}
	for i, n := range notRun {
		if !met[i] {
			t.Errorf("%s has no command %q any more: take it out of the list", n.page, n.command)
		}
		if n.reason == "" {
			t.Errorf("%s, %q: no reason", n.page, n.command)
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(scenes)), elsewhere) {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("%s is in a list: %v", name, err)
		}
	}
}

// names returns the pages whose commands readers type.
func names(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "docs/migrate/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		for _, path := range found {
			all = append(all, filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator))))
		}
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// port is a port that pages name. Each reader has others in their place.
var port = regexp.MustCompile(`\b(6070|6071|6379|6380|8080|8081|8083|9000|9090|9091|9092)\b`)

// patience bounds a command that does not end.
const patience = time.Minute

// denied is what a command prints whose exit code says so.
var denied = regexp.MustCompile(`(?m)^denied, |^HTTP/1.1 429 `)

// reader follows a page in a folder of its own.
type reader struct {
	t       *testing.T
	dir     string
	state   string // a file with the variables of the shell
	env     []string
	ports   map[string]string
	servers []*testserver.Process
}

func newReader(t *testing.T, program string, s scene) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir(), state: filepath.Join(t.TempDir(), "state"), ports: map[string]string{}}
	for _, word := range []string{"6070", "6071", "6379", "6380", "8080", "8081", "8083", "9000", "9090", "9091", "9092"} {
		r.ports[word] = strconv.Itoa(testserver.FreePort(t))
	}
	if s.redis {
		_, r.ports["6379"], _ = net.SplitHostPort(testserver.Redis(t, testserver.RedisConfig{}).Addr)
	}
	for _, name := range os.Environ() {
		if !strings.HasPrefix(name, "HEADGATE_") {
			r.env = append(r.env, name)
		}
	}
	r.env = append(r.env, "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "HEADGATE_DRAIN_DELAY=0s", "HEADGATE_STORE_BUDGET=10s",
		"CURL_HOME="+filepath.Dir(r.state), "HEADGATE_ADDR=http://127.0.0.1:"+r.ports["8080"], "HEADGATE_HTTP_ADDR=127.0.0.1:"+r.ports["8080"],
		"HEADGATE_GRPC_ADDR=127.0.0.1:"+r.ports["8081"], "HEADGATE_OPS_ADDR=127.0.0.1:"+r.ports["6070"])
	write(t, r.state, "")
	write(t, filepath.Join(filepath.Dir(r.state), ".curlrc"), "silent\nshow-error\nfail-with-body\n")
	for _, folder := range []string{"examples", "deploy"} {
		from, err := filepath.Abs(filepath.Join(root, folder))
		if err == nil {
			err = os.Symlink(from, filepath.Join(r.dir, folder))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range s.files {
		r.do(step{file: name, body: text})
	}
	for _, command := range s.before {
		r.do(step{command: command})
	}
	return r
}

// do does one step, and reports whether that went as the page says.
func (r *reader) do(s step) bool {
	r.t.Helper()
	for i := range s.output {
		s.output[i] = r.mapped(s.output[i])
	}
	command := r.mapped(s.command)
	switch {
	case s.file != "":
		write(r.t, filepath.Join(r.dir, s.file), r.mapped(s.body))
		return true
	case strings.HasPrefix(command, "headgate serve ") || strings.HasPrefix(command, "headgate proxy "):
		return r.serve(strings.TrimSuffix(withoutComment(command), " &"))
	case strings.HasSuffix(command, " &"):
		return r.background(strings.TrimSuffix(command, " &"))
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", `set -a; . "$0"; `+command+"\ncode=$?; export -p >\"$0\"; exit $code", r.state)
	shell.Dir, shell.Env, shell.WaitDelay = r.dir, r.env, time.Second
	out, err := shell.CombinedOutput()
	if err != nil && !denied.Match(out) {
		r.t.Errorf("$ %s\n%s%v", command, out, err)
		return false
	}
	for _, line := range s.output {
		if !shows(string(out), line) {
			r.t.Errorf("$ %s\nit does not print %q:\n%s", command, line, out)
			return false
		}
	}
	return true
}

// background starts a command that serves something, and waits until its ports are taken.
func (r *reader) background(command string) bool {
	r.t.Helper()
	p := r.start(command)
	for _, number := range r.ports {
		if !strings.Contains(command, number) {
			continue
		}
		if err := p.Poll(func() error {
			c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", number))
			if err == nil {
				c.Close()
			}
			return err
		}); err != nil {
			r.t.Errorf("$ %s\n%s%v", command, p.Output(), err)
			return false
		}
	}
	return true
}

// start starts a command that goes on beside the others.
func (r *reader) start(command string) *testserver.Process {
	r.t.Helper()
	shell := exec.Command("bash", "-c", `set -a; . "$0"; exec `+command, r.state)
	shell.Dir, shell.Env = r.dir, r.env
	p, err := testserver.StartProcess(shell)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.Terminate)
	return p
}

// mapped returns a text with the ports of this reader, and the Redis of this reader in the place
// of the one that pages call redis.
func (r *reader) mapped(text string) string {
	text = strings.ReplaceAll(text, "redis://redis:", "redis://127.0.0.1:")
	return port.ReplaceAllStringFunc(text, func(word string) string { return r.ports[word] })
}

// serve runs a command that serves, in place of the one before it, until it is ready.
func (r *reader) serve(command string) bool {
	r.t.Helper()
	for _, p := range r.servers {
		p.Terminate()
	}
	r.servers = nil
	p := r.start(command)
	r.servers = append(r.servers, p)
	if err := p.Poll(func() error {
		if !strings.Contains(p.Output(), "headgate ready") {
			return errors.New("it does not say that it is ready")
		}
		// Its listeners serve; now what it reads of a database has to be there as well.
		resp, err := http.Get("http://127.0.0.1:" + r.ports["6070"] + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz: %s", resp.Status)
		}
		return nil
	}); err != nil {
		r.t.Errorf("$ %s\n%s%v", command, p.Output(), err)
		return false
	}
	return true
}
