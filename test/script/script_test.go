package script

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/headgate/headgate/internal/cli"
	"github.com/headgate/headgate/internal/testserver"
)

// serving is the command of what lasts: serve, top and tail. It is made of the test binary,
// so that `make race` has it under the race detector. All else is headgate as it is built,
// which starts in a quarter of the time; the tests of package cli have that under the race
// detector.
const serving = "headgate-serving"

func TestMain(m *testing.M) {
	testscript.Main(withCommand{m}, map[string]func(){
		serving: func() { os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// withCommand runs tests with the command headgate where programs are looked for.
type withCommand struct{ m *testing.M }

func (w withCommand) Run() int {
	dir, err := os.MkdirTemp("", "headgate")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	binary, err := testserver.Headgate()
	if err == nil {
		err = os.Symlink(binary, filepath.Join(dir, "headgate"))
	}
	if err != nil {
		panic(err)
	}
	os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return testserver.Run(w.m)
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		Setup:               badFiles,
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve":  serve,
			"proxy":  proxy,
			"signal": signal,
			"await":  await,
			"http":   request,
		},
	})
}

// badFiles makes, in $BAD, the rule files that a script cannot hold.
func badFiles(env *testscript.Env) error {
	dir := filepath.Join(env.WorkDir, "bad")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	env.Setenv("BAD", dir)
	env.Setenv("GORACE", os.Getenv("GORACE")) // how long a process under the race detector takes to end
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		aliases := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", ")
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, aliases)
	}
	for name, text := range map[string]string{
		"empty.yaml":     "",
		"not-utf8.yaml":  "domain: a\ndescriptors:\n  - key: \xff\xfe\n",
		"nul.yaml":       "domain: a\x00b\n",
		"bomb.yaml":      bomb,
		"deep.yaml":      "domain: a\ndescriptors: " + strings.Repeat("[", 100_000),
		"truncated.yaml": "domain: a\ndescriptors:\n  - {key: k, rate_limit: {unit: min",
		"sparse.yaml":    "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return os.Truncate(filepath.Join(dir, "sparse.yaml"), 100<<20)
}

// serve starts `headgate serve` with more arguments on free ports and sets HTTP,
// GRPC, OPS and, where it serves that, ADMIN to its addresses. A script has one server
// at a time.
//
//	serve [arguments]
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! serve; use ! exec headgate serve")
	}
	s, err := startServer(ts.MkAbs("."), scriptEnvironment(ts), args...)
	ts.Check(err)
	lasts(ts, s)
}

// proxy starts `headgate proxy` with more arguments, as serve does.
//
//	proxy [arguments]
func proxy(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! proxy; use ! exec headgate proxy")
	}
	s, err := startCommand(nil, ts.MkAbs("."), scriptEnvironment(ts), append([]string{"proxy"}, args...)...)
	ts.Check(err)
	lasts(ts, s)
}

// lasts makes s the server of the script, until the script ends.
func lasts(ts *testscript.TestScript, s *server) {
	ts.Defer(func() {
		s.kill()
		ts.Logf("[server]\n%s", s.log.text())
	})
	running.Store(ts, s)
	for name, addr := range s.addrs {
		ts.Setenv(strings.ToUpper(name), addr)
	}
}

// running holds the server of each script, by its *testscript.TestScript.
var running sync.Map

func serverOf(ts *testscript.TestScript) *server {
	s, ok := running.Load(ts)
	if !ok {
		ts.Fatalf("no server; use serve first")
	}
	return s.(*server)
}

// scriptEnvironment returns the environment of the script, settings included.
func scriptEnvironment(ts *testscript.TestScript) []string {
	env := environment()
	for _, name := range []string{"HEADGATE_STORE", "HEADGATE_RULES", "HEADGATE_CONFIG", "HEADGATE_TENANTS", "HEADGATE_HTP_ADDR", "HEADGATE_ADDR", "HEADGATE_ADMIN", "HEADGATE_ADMIN_TOKEN_FILE", "HEADGATE_TO"} {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// signal sends a signal; after one that ends the process it waits for that, and
// checks the exit code. With a "!", the code must not be 0. The log is then in
// serve.log.
//
//	[!] signal HUP|TERM|INT
func signal(ts *testscript.TestScript, neg bool, args []string) {
	s := serverOf(ts)
	if len(args) != 1 {
		ts.Fatalf("usage: signal NAME")
	}
	number, ok := map[string]syscall.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT}[args[0]]
	if !ok {
		ts.Fatalf("unknown signal %s", args[0])
	}
	if number == syscall.SIGHUP {
		ts.Check(s.cmd.Process.Signal(number))
		return
	}
	code, err := s.stop(number)
	ts.Check(err)
	if (code != 0) != neg {
		ts.Fatalf("exit code %d:\n%s", code, s.log.text())
	}
	ts.Check(os.WriteFile(ts.MkAbs("serve.log"), []byte(s.log.text()), 0o600))
}

// await waits until lines of the server's log match the patterns, in whatever order;
// lines before the last of them are passed.
//
//	await PATTERN...
func await(ts *testscript.TestScript, neg bool, args []string) {
	s := serverOf(ts)
	if len(args) == 0 || neg {
		ts.Fatalf("usage: await PATTERN...")
	}
	from, passed := s.log.mark(), 0
	for _, arg := range args {
		pattern, err := regexp.Compile(arg)
		ts.Check(err)
		s.log.pass(from)
		ts.Check(s.log.await(pattern, s.ended))
		passed = max(passed, s.log.mark())
	}
	s.log.pass(passed)
}

// request asks over HTTP and writes status, header fields and body to
// http.txt. With a "!", the status must not be 200.
//
//	[!] http METHOD ADDRESS PATH [BODY]
func request(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: http METHOD ADDRESS PATH [BODY]")
	}
	var body io.Reader
	if len(args) > 3 {
		body = strings.NewReader(args[3])
	}
	transport := &http.Transport{DisableKeepAlives: true}
	url := "http://" + args[1] + args[2]
	if socket, ok := strings.CutPrefix(args[1], "unix://"); ok {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
		url = "http://headgate" + args[2]
	}
	r, err := http.NewRequest(args[0], url, body)
	ts.Check(err)
	response, err := (&http.Client{Transport: transport}).Do(r)
	ts.Check(err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	ts.Check(err)
	text := fmt.Sprintf("%s %d\n", response.Proto, response.StatusCode)
	var fields []string
	for name, values := range response.Header {
		fields = append(fields, name+": "+strings.Join(values, ", "))
	}
	slices.Sort(fields)
	text += strings.Join(fields, "\n") + "\n\n" + string(data)
	ts.Check(os.WriteFile(ts.MkAbs("http.txt"), []byte(text), 0o600))
	ts.Logf("%s", text)
	if (response.StatusCode != http.StatusOK) != neg {
		ts.Fatalf("status %d", response.StatusCode)
	}
}
