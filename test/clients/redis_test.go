package clients

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/testserver"
)

// redisClient connects with a token in a version of the protocol, and returns what sends a
// command and says what came of it: numbers with blanks between, or an error.
type redisClient func(t *testing.T, addr, token, version string) func(words ...string) string

var redisClients = map[string]redisClient{
	"rueidis":   overRueidis,
	"redis-cli": overRedisCLI,
	"go-redis": redisProgram(func(t *testing.T, args ...string) (*exec.Cmd, error) {
		return exec.CommandContext(deadline(t), goRedis(t), args...), nil
	}),
	"redis-py": redisProgram(func(t *testing.T, args ...string) (*exec.Cmd, error) {
		return pythonOf(t, "redis/python/client.py", "redis/python", "redis", args...)
	}),
	"ioredis": redisProgram(func(t *testing.T, args ...string) (*exec.Cmd, error) {
		return nodeOf(t, "redis/node/client.mjs", "redis/node/node_modules", "ioredis", args...)
	}),
	"jedis": redisProgram(func(t *testing.T, args ...string) (*exec.Cmd, error) {
		return javaOf(t, "redis/java/Client.java", "redis/java/lib", args...)
	}),
}

// TestRedisClients: every client connects as it does to a Redis, and gets the same answers.
func TestRedisClients(t *testing.T) {
	token, addr := serveRedis(t)
	for name, open := range redisClients {
		for _, version := range []string{"2", "3"} {
			who := name + " " + version
			t.Run(who, func(t *testing.T) {
				t.Parallel()
				ask := open(t, addr, token, version)
				for _, step := range []struct {
					want  string // the beginning, or a part of an error
					words []string
				}{
					{"PONG", []string{"PING"}},
					{"0 2 1 -1 86400", []string{"CL.THROTTLE", who, "1", "1", "86400"}},
					{"0 2 0 -1 ", []string{"CL.THROTTLE", who, "1", "1", "86400"}},
					{"1 2 0 ", []string{"CL.THROTTLE", who, "1", "1", "86400"}},
					{"0 2 1 -1 ", []string{"HEADGATE.CHECK", "d", "user=" + who}},
					{"1 2 1 -1 ", []string{"HEADGATE.CHECK", "d", "user=" + who, "HITS", "5"}},
					{"0 2 0 -1 ", []string{"HEADGATE.CHECK", "d", "user=" + who, "ID", "7"}},
					{"0 2 0 -1 ", []string{"HEADGATE.CHECK", "d", "user=" + who, "ID", "7"}},
					{"grüß €", []string{"ECHO", "grüß €"}},
					{"Zero rates are not supported", []string{"CL.THROTTLE", who, "1", "1", "0"}},
					{"unknown command", []string{"GET", "x"}},
				} {
					if got := ask(step.words...); !strings.HasPrefix(got, step.want) && !strings.Contains(strings.ToLower(got), strings.ToLower(step.want)) {
						t.Errorf("%q: %s, want %s", step.words, got, step.want)
					}
				}
			})
			t.Run(who+" with a wrong token", func(t *testing.T) {
				t.Parallel()
				got := open(t, addr, token+"x", version)("PING")
				if !strings.Contains(got, "WRONGPASS") && !strings.Contains(got, "invalid username-password") && !strings.Contains(got, "NOAUTH") {
					t.Error(got)
				}
			})
		}
	}
}

// TestRedisBenchmark: many pipelines at one time.
func TestRedisBenchmark(t *testing.T) {
	path, err := exec.LookPath("redis-benchmark")
	if err != nil {
		testserver.Unavailable(t, err.Error())
	}
	token, addr := serveRedis(t)
	host, port, _ := net.SplitHostPort(addr)
	out, err := exec.CommandContext(deadline(t), path, "-h", host, "-p", port, "-a", token, "-n", "20000", "-c", "16", "-P", "32", "-q", "CL.THROTTLE", "k", "100", "1000", "60").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "requests per second") || strings.Contains(string(out), "rror") {
		t.Errorf("%v\n%s", err, out)
	}
}

// serveRedis starts the command for clients of Redis, and returns a token and the address.
func serveRedis(t *testing.T) (token, addr string) {
	t.Helper()
	token, lines, err := callers.NewToken("t", []string{"check", "name_limits"}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "callers.yaml")
	if err := os.WriteFile(file, []byte("tokens:\n"+lines), 0o600); err != nil {
		t.Fatal(err)
	}
	return token, start(t, "redis", "--grpc-addr", "", "--redis-addr", "127.0.0.1:0", "--callers", file)
}

// redisProgram is a client that is a program of its own.
func redisProgram(command func(t *testing.T, args ...string) (*exec.Cmd, error)) redisClient {
	return func(t *testing.T, addr, token, version string) func(...string) string {
		cmd, err := command(t, addr, token, version)
		if err != nil {
			testserver.Unavailable(t, err.Error())
		}
		ask := talkTo(t, cmd)
		return func(words ...string) string { return ask(strings.Join(words, "\t") + "\n") }
	}
}

var building sync.Mutex

// goRedis builds the program of go-redis, which is a module of its own, and returns its path.
func goRedis(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "go-redis")
	// One build at a time, because the first leaves the others nothing to do. What is not in the
	// caches of Go may take minutes to come: the time of all tests bounds it.
	building.Lock()
	defer building.Unlock()
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = "redis/go"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// overRedisCLI runs a program for each command.
func overRedisCLI(t *testing.T, addr, token, version string) func(...string) string {
	path, err := exec.LookPath("redis-cli")
	if err != nil {
		testserver.Unavailable(t, err.Error())
	}
	host, port, _ := net.SplitHostPort(addr)
	return func(words ...string) string {
		args := append([]string{"-h", host, "-p", port, "-a", token, "--no-auth-warning", "-" + version}, words...)
		out, err := exec.CommandContext(deadline(t), path, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.ReplaceAll(string(out), "\n", " ")
	}
}

// overRueidis asks by the library that Headgate itself has. It caches nothing, because nothing is
// tracked for it.
func overRueidis(t *testing.T, addr, token, version string) func(...string) string {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, Password: token, AlwaysRESP2: version == "2", DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return func(...string) string { return err.Error() }
	}
	t.Cleanup(client.Close)
	return func(words ...string) string {
		got, err := client.Do(deadline(t), client.B().Arbitrary(words...).Build()).ToAny()
		if err != nil {
			return err.Error()
		}
		return strings.Trim(fmt.Sprint(got), "[]")
	}
}
