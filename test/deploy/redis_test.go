package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// healthy waits until the doctor has nothing to say against a store, and returns what it says.
func (s *sample) healthy(url string, want ...string) (out string) {
	s.t.Helper()
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
	return out
}

// nothingToAdd holds that the doctor has no hint.
func (s *sample) nothingToAdd(out string) {
	s.t.Helper()
	if strings.Contains(out, "hint:") {
		s.t.Errorf("the doctor has something to add:\n%s", out)
	}
}

// TestRedisSample: a Redis by the sample has all that Headgate needs, its user may do that and
// nothing else, and one that nobody follows is no primary to rely on.
func TestRedisSample(t *testing.T) {
	s := newSample(t)
	url := fmt.Sprintf("redis://headgate@127.0.0.1:%d/0?password_file=%s", s.server(), s.path("password"))
	s.nothingToAdd(s.healthy(url, "maxmemory-policy is noeviction", "append-only file"))
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
	s.nothingToAdd(s.healthy(fmt.Sprintf("redis+sentinel://headgate@%s/0?master=headgate&password_file=%s", strings.Join(sentinels, ","), s.path("password")), "primary with 1 replica"))
}

// TestClusterSample: the samples for the nodes of a cluster work together, the user who makes it may do so and
// move slots with what they hold, and no node refuses keys because another shard is away.
func TestClusterSample(t *testing.T) {
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		testserver.Unavailable(t, err.Error())
	}
	s := newSample(t)
	var nodes []string
	for range 6 {
		port := s.server("--include", s.path("replicated.conf"), "--include", s.path("cluster.conf"), "--cluster-port", fmt.Sprint(testserver.FreePort(t)))
		nodes = append(nodes, fmt.Sprintf("127.0.0.1:%d", port))
	}
	askAs := func(user string, args ...string) (string, error) {
		out, err := exec.Command(cli, append([]string{"--user", user, "--pass", "drawn-" + user, "--no-auth-warning"}, args...)...).CombinedOutput()
		return string(out), err
	}
	ask := func(args ...string) (string, error) { return askAs("cluster", args...) }
	for _, node := range nodes {
		_, port, _ := strings.Cut(node, ":")
		eventually.Nil(t, "every node answers", func() error {
			out, err := ask("-p", port, "CONFIG", "GET", "cluster-require-full-coverage")
			if err != nil || out != "cluster-require-full-coverage\nno\n" {
				return fmt.Errorf("%s: %v: %q", node, err, out)
			}
			return nil
		})
	}
	if out, err := ask(slices.Concat([]string{"--cluster", "create"}, nodes, []string{"--cluster-replicas", "1", "--cluster-yes"})...); err != nil {
		t.Fatalf("make the cluster: %v\n%s", err, out)
	}
	out := s.healthy(fmt.Sprintf("redis+cluster://headgate@%s?password_file=%s", strings.Join(nodes[:3], ","), s.path("password")), "primary with 1 replica")
	// One thing is not for the user of Headgate to ask, and was asked above.
	if strings.Count(out, "hint:") != 3 || strings.Count(out, "may not ask whether the server goes on when another shard is away") != 3 {
		t.Errorf("the doctor has something else to add:\n%s", out)
	}
	// The slot of this key is the first of the first node.
	const key = "hg:{06S}"
	_, first, _ := strings.Cut(nodes[0], ":")
	_, second, _ := strings.Cut(nodes[1], ":")
	if out, err := askAs("headgate", "-p", first, "SET", key, "7", "PX", "3600000"); err != nil || out != "OK\n" {
		t.Fatalf("count: %v: %s", err, out)
	}
	ids := map[string]string{}
	for _, port := range []string{first, second} {
		out, err := ask("-p", port, "CLUSTER", "MYID")
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		ids[port] = strings.TrimSpace(out)
	}
	if out, err := ask("--cluster", "reshard", nodes[0], "--cluster-from", ids[first], "--cluster-to", ids[second], "--cluster-slots", "2", "--cluster-yes"); err != nil {
		t.Fatalf("move slots: %v\n%s", err, out)
	}
	if out, err := askAs("headgate", "-p", second, "GET", key); err != nil || out != "7\n" {
		t.Errorf("after its slot has moved: %v: %s", err, out)
	}
}
