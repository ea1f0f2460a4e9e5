package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

const redisDir = "../../deploy/redis"

// sample are the files of deploy/redis in a folder of the test, with passwords and a place of
// their own.
type sample struct {
	t   *testing.T
	dir string
}

func newSample(t *testing.T) *sample {
	t.Helper()
	s := &sample{t, t.TempDir()}
	files, err := os.ReadDir(redisDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(redisDir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		s.write(f.Name(), strings.ReplaceAll(string(text), "change-me", "drawn"))
	}
	s.write("password", "drawn-headgate\n")
	return s
}

func (s *sample) path(name string) string { return filepath.Join(s.dir, name) }

func (s *sample) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// run runs a program of Redis with a file, in a folder of its own, and returns its port.
func (s *sample) run(name string, args ...string) (port int) {
	s.t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		testserver.Unavailable(s.t, err.Error())
	}
	port = testserver.FreePort(s.t)
	dir := s.path(fmt.Sprintf("%s-%d", name, port))
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	process, err := testserver.StartProcess(exec.Command(program, append(args, "--port", fmt.Sprint(port), "--dir", dir)...))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(process.Kill)
	return port
}

// server runs a Redis by redis.conf.
func (s *sample) server(args ...string) (port int) {
	s.t.Helper()
	return s.run("redis", append([]string{s.path("redis.conf"), "--aclfile", s.path("users.acl")}, args...)...)
}

// doctor returns what headgate store doctor says of a store.
func (s *sample) doctor(url string) (string, error) {
	binary, err := testserver.Headgate()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := exec.Command(binary, "store", "doctor", "--store", url).CombinedOutput()
	return string(out), err
}

// healthy waits until the doctor has nothing to say against a store.
func (s *sample) healthy(url string, want ...string) {
	s.t.Helper()
	var out string
	if err := eventually.Poll(nil, func() (err error) {
		if out, err = s.doctor(url); err != nil {
			return err
		}
		for _, text := range append(want, "problems: 0, warnings: 0") {
			if !strings.Contains(out, text) {
				return fmt.Errorf("no %q", text)
			}
		}
		return nil
	}); err != nil {
		s.t.Fatalf("%s: %v\n%s", url, err, out)
	}
	if strings.Contains(out, "hint:") {
		s.t.Errorf("the doctor has something to add:\n%s", out)
	}
}

// TestRedisSample: a Redis by the sample has all that Headgate needs, its user may do that and
// nothing else, and one that nobody follows is no primary to rely on.
func TestRedisSample(t *testing.T) {
	s := newSample(t)
	url := fmt.Sprintf("redis://headgate@127.0.0.1:%d/0?password_file=%s", s.server(), s.path("password"))
	s.healthy(url, "maxmemory-policy is noeviction", "append-only file")
	if out, err := s.doctor(strings.Replace(url, "password_file", "prefix=other:&password_file", 1)); err == nil {
		t.Errorf("another prefix is permitted:\n%s", out)
	}
}

// TestSentinelSample: the samples for a primary, its replica and three sentinels work together.
func TestSentinelSample(t *testing.T) {
	s := newSample(t)
	primary := s.server("--include", s.path("replicated.conf"))
	s.server("--include", s.path("replicated.conf"), "--replicaof", "127.0.0.1", fmt.Sprint(primary))
	var sentinels []string
	for i := range 3 {
		name := fmt.Sprintf("sentinel%d.conf", i)
		text, err := os.ReadFile(s.path("sentinel.conf"))
		if err != nil {
			t.Fatal(err)
		}
		s.write(name, strings.Replace(string(text), "127.0.0.1 6379", fmt.Sprintf("127.0.0.1 %d", primary), 1))
		sentinels = append(sentinels, fmt.Sprintf("127.0.0.1:%d", s.run("sentinel", s.path(name), "--sentinel")))
	}
	s.healthy(fmt.Sprintf("redis+sentinel://headgate@%s/0?master=headgate&password_file=%s", strings.Join(sentinels, ","), s.path("password")), "primary with 1 replica")
}
