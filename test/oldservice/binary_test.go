package oldservice

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

var (
	binary = flag.String("ratelimit-binary", "", "the binary of envoyproxy/ratelimit that is compared with")
	record = flag.Bool("record", false, "write its answers into testdata")
)

func TestMain(m *testing.M) { testserver.RunTests(m) }

// The old service, run beside a real Redis, answers as Headgate does now.
func TestBesideTheOldService(t *testing.T) {
	if *binary == "" {
		t.Skip("-ratelimit-binary is not given")
	}
	for _, s := range scenarios(t) {
		t.Run(s.name(), func(t *testing.T) {
			old := startOldService(t, s.rules)
			answers := old.askAll(t, s)
			if *record {
				if err := s.write(answers); err != nil {
					t.Fatal(err)
				}
			}
			s.replay(t, answers)
		})
	}
}

// oldService is a running envoyproxy/ratelimit.
type oldService struct {
	url   string
	redis *testserver.RedisServer
}

func startOldService(t *testing.T, rules string) *oldService {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "ratelimit", "config"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "ratelimit", "config", "rules.yaml"), []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	redis := testserver.Redis(t, testserver.RedisConfig{})
	port := func() string { return strconv.Itoa(testserver.FreePort(t)) }
	web := port()
	cmd := exec.Command(*binary)
	cmd.Env = []string{
		"HOST=127.0.0.1", "PORT=" + web, "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + port(), "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + port(),
		"RUNTIME_ROOT=" + root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_TYPE=SINGLE", "REDIS_URL=" + redis.Addr,
		"USE_STATSD=false", "LOG_LEVEL=warn", "LIMIT_RESPONSE_HEADERS_ENABLED=true",
	}
	process, err := testserver.StartProcess(cmd)
	if err != nil {
		t.Fatalf("start the old service: %v", err)
	}
	t.Cleanup(process.Terminate)
	s := &oldService{url: "http://" + net.JoinHostPort("127.0.0.1", web), redis: redis}
	if err := process.Poll(s.healthy); err != nil {
		t.Fatalf("start the old service: %v", err)
	}
	return s
}

func (s *oldService) healthy() error {
	resp, err := http.Get(s.url + "/healthcheck")
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("healthcheck: %s", resp.Status)
	}
	return nil
}

// attempts bounds how often a scenario is begun anew because a second ended under a request.
const attempts = 10

// askAll asks all requests of a scenario. Each is answered within one second, which is
// part of the recording: if one is not, all is forgotten and begun anew.
func (s *oldService) askAll(t *testing.T, sc *scenario) []recorded {
	t.Helper()
	for range attempts {
		s.forget(t)
		if answers, whole := s.tryAll(t, sc); whole {
			return answers
		}
	}
	t.Fatalf("a second ended under a request in each of %d attempts", attempts)
	return nil
}

// forget empties the Redis.
func (s *oldService) forget(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", s.redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "FLUSHALL\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := bufio.NewReader(conn).ReadString('\n'); err != nil || answer != "+OK\r\n" {
		t.Fatalf("empty the Redis: %q, %v", answer, err)
	}
}

func (s *oldService) tryAll(t *testing.T, sc *scenario) (answers []recorded, whole bool) {
	var before int64
	for _, step := range sc.steps {
		for step.later && time.Now().Unix() <= before {
			<-time.After(time.Until(time.Unix(before+1, 0)))
		}
		before = time.Now().Unix()
		a := recorded{At: before}
		a.Status, a.Answer = s.ask(t, step.request)
		if time.Now().Unix() != before {
			return nil, false
		}
		answers = append(answers, a)
	}
	return answers, true
}

func (s *oldService) ask(t *testing.T, request string) (status int, answer json.RawMessage) {
	t.Helper()
	resp, err := http.Post(s.url+"/json", "application/json", strings.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusTooManyRequests {
		compact := new(json.RawMessage)
		if err := json.Unmarshal(body, compact); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return resp.StatusCode, *compact
	}
	text, err := json.Marshal(strings.TrimSpace(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, text
}
