// Package clients has clients of several languages ask the same: of gRPC over each transport of
// the server, and of Redis in each version of its protocol.
package clients

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/client/stream/streampb"
	"github.com/headgate/headgate/internal/testserver"
)

func TestMain(m *testing.M) { testserver.RunTests(m) }

// The methods that are called.
const (
	shouldRateLimit = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	healthCheck     = "/grpc.health.v1.Health/Check"
	healthWatch     = "/grpc.health.v1.Health/Watch"
	checkStream     = "/headgate.v1.CheckStream/Check"
	reflectionInfo  = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
)

const rules = `domain: d
match: path
descriptors:
- {key: user, rate_limit: {unit: year, requests_per_unit: 2, algorithm: fixed_window}}
`

// call is what a client is asked to do. The zero value of each field but Method is none.
type call struct {
	Method       string
	Stream, Gzip bool
	Timeout      time.Duration // in whole seconds
	Metadata     map[string]string
	Message      []byte
}

// line writes c for programs: METHOD STREAM GZIP SECONDS NAME=VALUE,... MESSAGE, between tabs,
// with the message in hex.
func (c *call) line() string {
	var pairs []string
	for name, value := range c.Metadata {
		pairs = append(pairs, name+"="+value)
	}
	return fmt.Sprintf("%s\t%v\t%v\t%d\t%s\t%x\n", c.Method, c.Stream, c.Gzip, int(c.Timeout.Seconds()), strings.Join(pairs, ","), c.Message)
}

// outcome is what came of a call: of a stream the first answer. Programs write it as CODE ANSWER
// MESSAGE, between tabs, with the answer in hex.
type outcome struct {
	Code    codes.Code
	Message string
	Answer  []byte
}

func parseOutcome(line string) (o outcome, err error) {
	fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
	if len(fields) < 3 {
		return o, io.ErrUnexpectedEOF
	}
	code, err := strconv.Atoi(fields[0])
	if err != nil {
		return o, err
	}
	answer, err := hex.DecodeString(fields[1])
	return outcome{codes.Code(code), fields[2], answer}, err
}

// client makes calls to an address.
type client func(t *testing.T, addr string) func(call) outcome

// all are the clients by name.
var all = map[string]client{
	"grpc-go":    grpcGo,
	"connect-go": connectGo,
	"grpcio":     program(python),
	"grpc-js":    program(node),
	"grpc-java":  program(java),
}

// TestClients: every client gets the same from every method, over each transport.
func TestClients(t *testing.T) {
	for _, transport := range []string{"grpc-go", "h2"} {
		t.Run(transport, func(t *testing.T) {
			addr := serve(t, transport)
			for name, open := range all {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					talk(t, open(t, addr), name)
				})
			}
		})
	}
}

// talk makes calls and compares what comes of them. Who asks is the user of the rules.
func talk(t *testing.T, make func(call) outcome, who string) {
	huge := protowire.AppendBytes(protowire.AppendTag(request("d", who+" huge"), 100, protowire.BytesType), bytesOf(100<<10))
	tooLarge := protowire.AppendBytes(protowire.AppendTag(request("d", who), 100, protowire.BytesType), bytesOf(4<<20))
	once := map[string]string{"headgate-check-id": "7", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	for _, step := range []struct {
		name string
		call call
		code codes.Code
		want string // of the answer, or in the message of an error
	}{
		{"allowed", call{Method: shouldRateLimit, Message: (request("d", who))}, codes.OK, "OK 1"},
		{"with a deadline", call{Method: shouldRateLimit, Timeout: time.Minute, Message: (request("d", who))}, codes.OK, "OK 0"},
		{"over the limit", call{Method: shouldRateLimit, Timeout: time.Minute, Message: (request("d", who))}, codes.OK, "OVER_LIMIT 0"},
		{"compressed", call{Method: shouldRateLimit, Gzip: true, Message: (request("d", who+" gzip"))}, codes.OK, "OK 1"},
		{"by an id", call{Method: shouldRateLimit, Metadata: once, Message: (request("d", who+" once"))}, codes.OK, "OK 1"},
		{"by the same id", call{Method: shouldRateLimit, Metadata: once, Message: (request("d", who+" once"))}, codes.OK, "OK 1"},
		{"large", call{Method: shouldRateLimit, Message: (huge)}, codes.OK, "OK 1"},
		{"too large", call{Method: shouldRateLimit, Message: (tooLarge)}, codes.ResourceExhausted, ""},
		{"malformed", call{Method: shouldRateLimit, Message: (request("", who))}, codes.InvalidArgument, "domain"},
		{"empty", call{Method: shouldRateLimit}, codes.InvalidArgument, "domain"},
		{"no protobuf", call{Method: shouldRateLimit, Message: []byte("\xff\xff\xff")}, codes.Internal, "malformed protobuf"},
		{"another method", call{Method: shouldRateLimit + "s"}, codes.Unimplemented, "unknown method"},
		{"another service", call{Method: "/a.B/C"}, codes.Unimplemented, "unknown service"},
		{"health", call{Method: healthCheck}, codes.OK, "SERVING"},
		{"health of nothing", call{Method: healthCheck, Message: (marshal(&healthpb.HealthCheckRequest{Service: "x"}))}, codes.NotFound, "unknown service"},
		{"health, watched", call{Method: healthWatch, Stream: true}, codes.OK, "SERVING"},
		{"checks over a stream", call{Method: checkStream, Stream: true, Message: checks(who+" streams", who+" streams", who+" streams")}, codes.OK, "1: OK, 2: OK, 3: OVER_LIMIT"},
		{"the same, compressed and with a deadline", call{Method: checkStream, Stream: true, Gzip: true, Timeout: time.Minute, Message: checks(who+" streams", "")}, codes.OK, "1: OVER_LIMIT, 2: InvalidArgument"},
		{"no checks over a stream", call{Method: checkStream, Stream: true, Message: []byte("\xff\xff\xff")}, codes.InvalidArgument, "malformed protobuf"},
		{"reflection, which is not served", call{Method: reflectionInfo, Stream: true}, codes.Unimplemented, "unknown service"},
	} {
		got := make(step.call)
		if got.Code != step.code {
			t.Errorf("%s: %v %q, want %v", step.name, got.Code, got.Message, step.code)
			continue
		}
		text := got.Message
		if got.Code == codes.OK {
			text = read(t, step.call.Method, got.Answer)
		}
		if !strings.Contains(text, step.want) {
			t.Errorf("%s: %s, want %s", step.name, text, step.want)
		}
	}
}

// read writes an answer in words.
func read(t *testing.T, method string, answer []byte) string {
	var m proto.Message
	switch method {
	case shouldRateLimit:
		m = new(rlsv3.RateLimitResponse)
	case checkStream:
		m = new(streampb.CheckResponse)
	default:
		m = new(healthpb.HealthCheckResponse)
	}
	if err := proto.Unmarshal(answer, m); err != nil {
		t.Errorf("answer %x: %v", answer, err)
	}
	if r, ok := m.(*rlsv3.RateLimitResponse); ok && len(r.Statuses) == 1 {
		return fmt.Sprint(r.OverallCode, " ", r.Statuses[0].LimitRemaining)
	}
	if r, ok := m.(*streampb.CheckResponse); ok {
		return answered(r)
	}
	return fmt.Sprint(m)
}

// answered writes the answers of a stream in words.
func answered(r *streampb.CheckResponse) string {
	var all []string
	for _, a := range r.GetAnswers() {
		what := a.GetResponse().GetOverallCode().String()
		if f := a.GetFailure(); f != nil {
			what = codes.Code(f.GetCode()).String()
		}
		all = append(all, fmt.Sprint(a.GetNumber(), ": ", what))
	}
	return strings.Join(all, ", ")
}

// checks is a message of a stream that asks about each user, in order. One without a name is
// malformed.
func checks(users ...string) []byte {
	m := &streampb.CheckRequest{InOrder: true}
	for i, user := range users {
		domain := "d"
		if user == "" {
			domain = ""
		}
		m.Checks = append(m.Checks, &streampb.Check{Number: uint64(i + 1), Request: new(rlsv3.RateLimitRequest)})
		if err := proto.Unmarshal(request(domain, user), m.Checks[i].Request); err != nil {
			panic(err)
		}
	}
	return marshal(m)
}

func request(domain, user string) []byte {
	return marshal(&rlsv3.RateLimitRequest{Domain: domain, Descriptors: []*ratelimitv3.RateLimitDescriptor{{
		Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "user", Value: user}},
	}}})
}

func marshal(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func bytesOf(n int) []byte { return make([]byte, n) }

// serve starts the command with a transport, and returns its address for gRPC.
func serve(t *testing.T, transport string) string {
	t.Helper()
	return start(t, "grpc", "--grpc-transport", transport, "--grpc-addr", "127.0.0.1:0")
}

// start starts the command, and returns the address of a front.
func start(t *testing.T, front string, args ...string) string {
	t.Helper()
	binary, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	process, err := testserver.StartProcess(exec.Command(binary, append([]string{"serve", "--rules", file, "--store", "memory://",
		"--http-addr", "127.0.0.1:0", "--ops-addr", "", "--drain-delay", "0s"}, args...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	ready := regexp.MustCompile(`headgate ready.* ` + front + `=(\S+)`)
	var found []string
	if err := process.Poll(func() error {
		if found = ready.FindStringSubmatch(process.Output()); found == nil {
			return io.EOF
		}
		return nil
	}); err != nil {
		t.Fatalf("headgate was not ready: %v\n%s", err, process.Output())
	}
	return found[1]
}

// program is a client that is a program of its own. command returns how it is run for an
// address, or why it cannot be.
func program(command func(t *testing.T, addr string) (*exec.Cmd, error)) client {
	return func(t *testing.T, addr string) func(call) outcome {
		cmd, err := command(t, addr)
		if err != nil {
			testserver.Unavailable(t, err.Error())
		}
		ask := talkTo(t, cmd)
		return func(c call) outcome {
			line := ask(c.line())
			o, err := parseOutcome(line)
			if err != nil {
				t.Fatalf("%s %q: %v", c.Method, line, err)
			}
			return o
		}
	}
}

// talkTo runs a program until the test ends, and returns what sends it a line and returns the one
// that it answers.
func talkTo(t *testing.T, cmd *exec.Cmd) func(line string) string {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, log.String())
		}
	})
	lines := bufio.NewReader(out)
	return func(line string) string {
		if _, err := io.WriteString(in, line); err != nil {
			t.Fatal(err)
		}
		answer, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%q: %q, %v", line, answer, err)
		}
		return answer
	}
}

// patience bounds a client as a whole.
const patience = 2 * time.Minute

func python(t *testing.T, addr string) (*exec.Cmd, error) {
	return pythonOf(t, "python/client.py", "grpc/python", "grpc", addr)
}

// pythonOf runs a program in Python with a folder of modules, which holds a needed one.
func pythonOf(t *testing.T, program, modules, needed string, args ...string) (*exec.Cmd, error) {
	path, err := exec.LookPath("python3")
	if err != nil {
		return nil, err
	}
	if modules, err = tools(modules, needed); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(deadline(t), path, append([]string{program}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+modules, "PYTHONDONTWRITEBYTECODE=1", "PYTHONIOENCODING=utf-8")
	return cmd, nil
}

func node(t *testing.T, addr string) (*exec.Cmd, error) {
	return nodeOf(t, "node/client.mjs", "grpc/node/node_modules", "@grpc/grpc-js", addr)
}

// nodeOf is pythonOf for Node.js.
func nodeOf(t *testing.T, program, modules, needed string, args ...string) (*exec.Cmd, error) {
	path, err := exec.LookPath("node")
	if err != nil {
		return nil, err
	}
	if modules, err = tools(modules, needed); err != nil {
		return nil, err
	}
	// Modules are looked for beside the program.
	dir := t.TempDir()
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "client.mjs"), text, 0o600); err != nil {
		return nil, err
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		return nil, err
	}
	return exec.CommandContext(deadline(t), path, append([]string{filepath.Join(dir, "client.mjs")}, args...)...), nil
}

func java(t *testing.T, addr string) (*exec.Cmd, error) {
	return javaOf(t, "java/Client.java", "grpc/java/lib", addr)
}

// javaOf is pythonOf for Java.
func javaOf(t *testing.T, program, jars string, args ...string) (*exec.Cmd, error) {
	path, err := testserver.JavaCompiler()
	if err != nil {
		return nil, err
	}
	if jars, err = tools(jars, "."); err != nil {
		return nil, err
	}
	return exec.CommandContext(deadline(t), path, append([]string{"-cp", filepath.Join(jars, "*"), program}, args...)...), nil
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// tools returns a folder of what `make deps` installs, if it holds what is needed.
func tools(folder, needed string) (string, error) {
	path, err := filepath.Abs(filepath.Join("../../.tools", folder))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(path, needed)); err != nil {
		return "", fmt.Errorf("%w; hint: make deps", err)
	}
	return path, nil
}
