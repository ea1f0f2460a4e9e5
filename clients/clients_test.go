// Package clients_test packs the clients in other languages as they are published, installs them
// as their users do, and runs their tests against a Headgate process.
package clients_test

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

var published = flag.String("published", "", "directory of a release; the clients in it are tested in place of ones that are packed for that")

var readyLine = regexp.MustCompile(`headgate ready http=(\S+) grpc=(\S+)`)

// headgate is a running server.
type headgate struct {
	http, grpc string // addresses
	token      string // that may name limits
}

// callers is a file of callers to which a token is added.
const callers = `anonymous:
  http: [check, reserve]
  grpc: [check]
tokens:
`

// startHeadgate builds and starts the command by the rules of this folder.
func startHeadgate(t *testing.T) headgate {
	t.Helper()
	binary, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "callers.yaml")
	if err := os.WriteFile(file, []byte(callers), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := exec.Command(binary, "caller", "token", "clients", "--rights", "check,reserve,name_limits", "--out", file).Output()
	if err != nil {
		t.Fatalf("draw a token: %v", err)
	}
	process, err := testserver.StartProcess(exec.Command(binary, "serve", "--rules", "rules.yaml", "--store", "memory://",
		"--callers", file, "--body", "problem",
		"--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--ops-addr", "", "--drain-delay", "0s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	var found []string
	if err := process.Poll(func() error {
		if found = readyLine.FindStringSubmatch(process.Output()); found == nil {
			return io.EOF
		}
		return nil
	}); err != nil {
		t.Fatalf("headgate was not ready: %v\n%s", err, process.Output())
	}
	return headgate{http: found[1], grpc: found[2], token: strings.TrimSpace(string(token))}
}

// env is what the tests of a client are told.
func (h headgate) env(t *testing.T) []string {
	certs := testserver.NewCertificates(t)
	port := secured(t, certs, h.http)
	return []string{
		"HEADGATE_URL=http://" + h.http, "HEADGATE_GRPC=" + h.grpc, "HEADGATE_TOKEN=" + h.token,
		"HEADGATE_FORGETFUL_URL=http://" + testserver.Forgetful(t, h.http),
		"HEADGATE_TLS_URL=https://localhost:" + port, "HEADGATE_CA=" + certs.CAFile, "NODE_EXTRA_CA_CERTS=" + certs.CAFile,
		"HEADGATE_TRANSCRIPTS=" + absolute(t, "../internal/httpcheck/testdata"),
		"HEADGATE_ANSWERS=" + absolute(t, "answers.json"),
	}
}

// secured starts a proxy to target, HOST:PORT, that shows the certificate of certs to those who
// ask for localhost by TLS, and returns its port.
func secured(t *testing.T, certs *testserver.Certificates, target string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certs.CertFile, certs.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: target})
	}})
	proxy.Config.ErrorLog = log.New(io.Discard, "", 0) // tests ask it wrongly
	// Who names nobody gets a certificate of httptest, which no test trusts.
	proxy.TLS = &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if hello.ServerName != "localhost" {
			return nil, fmt.Errorf("no certificate for %q", hello.ServerName)
		}
		return &pair, nil
	}}
	proxy.StartTLS()
	t.Cleanup(proxy.Close)
	_, port, err := net.SplitHostPort(proxy.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// absolute is a path from the root of the file system.
func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// program returns the path of a program.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		testserver.Unavailable(t, err.Error())
	}
	return path
}

// tools returns a folder of what `make deps` installs, which holds what is needed.
func tools(t *testing.T, folder, needed string) string {
	t.Helper()
	path := absolute(t, filepath.Join("../.tools/clients", folder))
	if _, err := os.Stat(filepath.Join(path, needed)); err != nil {
		testserver.Unavailable(t, fmt.Sprintf("%v; hint: make deps", err))
	}
	return path
}

// run runs a command in a folder with more in its environment, and returns what it wrote.
func run(t *testing.T, folder string, env []string, command string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// skipped finds what the test runners of Node.js and Python say when not all was run.
var skipped = regexp.MustCompile(`(?m)^(?:# |ℹ )(?:skipped [1-9]|tests 0)|^OK \(skipped|^Ran 0 tests`)

// test runs tests of which none may be skipped.
func test(t *testing.T, folder string, env []string, command string, args ...string) {
	t.Helper()
	if out := run(t, folder, env, command, args...); skipped.MatchString(out) {
		t.Errorf("%s skipped a test:\n%s", command, out)
	}
}

// copied copies a file or folder of this one into a folder, so that building leaves nothing here.
func copied(t *testing.T, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(to, filepath.Base(name))
		if info.IsDir() {
			err = os.CopyFS(target, os.DirFS(name))
		} else {
			var data []byte
			if data, err = os.ReadFile(name); err == nil {
				err = os.WriteFile(target, data, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// folder makes one below another.
func folder(t *testing.T, elements ...string) string {
	t.Helper()
	path := filepath.Join(elements...)
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// packed returns a folder that has the package of a language as a release has it.
func packed(t *testing.T, language string) string {
	t.Helper()
	if *published != "" {
		return *published
	}
	out := filepath.Join(t.TempDir(), "release")
	run(t, "../tools/release", []string{"GOFLAGS="}, program(t, "go"), "run", ".",
		"-only", language, "-version", "v1.4.0-rc.1", "-time", "1700000000", "-out", out)
	return out
}

// only returns the one file that a pattern matches.
func only(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s matches %v, %v", pattern, found, err)
	}
	return found[0]
}

// TestTypeScript installs the package of a release into an empty project, puts a program that uses
// it and the worker of the examples there, compiles that program, ES modules and CommonJS, and
// runs it.
//
//promise:works-with
func TestTypeScript(t *testing.T) {
	t.Parallel()
	node, npm := program(t, "node"), program(t, "npm")
	modules := filepath.Join(tools(t, "typescript", "node_modules/typescript"), "node_modules")
	work := t.TempDir()
	app := folder(t, work, "app")
	run(t, app, nil, npm, "init", "--yes", "--loglevel=error")
	run(t, app, nil, npm, "install", "--offline", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error",
		only(t, packed(t, "typescript")+"/headgate-client-*.tgz"))
	// What the tests want besides is found in the folder above, after what is installed.
	if err := os.Symlink(modules, filepath.Join(work, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(app, os.DirFS("typescript/test")); err != nil {
		t.Fatal(err)
	}
	copied(t, app, "../examples/edge-worker/worker.mjs")
	run(t, app, nil, filepath.Join(modules, ".bin/tsc"), "-p", ".")
	test(t, app, startHeadgate(t).env(t), node, "--test", "out/")
}

// TestJava runs the example against a server that answers as it is told to, and against a Headgate
// that answers, that refuses, and that is not there.
func TestJava(t *testing.T) {
	t.Parallel()
	java, err := testserver.JavaCompiler()
	if err != nil {
		testserver.Unavailable(t, err.Error())
	}
	found, err := filepath.Glob(filepath.Join(tools(t, "java", "lib"), "lib", "*.jar"))
	if err != nil {
		t.Fatal(err)
	}
	jars := strings.Join(found, string(filepath.ListSeparator))
	classes := t.TempDir()
	run(t, ".", nil, java, "--module", "jdk.compiler/com.sun.tools.javac.Main", "-Xlint:all,-classfile,-processing,-path", "-Werror", "--release", "17",
		"-cp", jars, "-d", classes, "java/src/main/java/com/example/limits/Limits.java", "java/src/test/java/com/example/limits/ScriptedServer.java")
	run(t, ".", nil, java, "-cp", classes+string(filepath.ListSeparator)+jars, "com.example.limits.ScriptedServer")
	h := startHeadgate(t)
	ask := func(token, target string, args ...string) (string, error) {
		args = append([]string{"-cp", classes + string(filepath.ListSeparator) + jars, "com.example.limits.Limits", target, "java", "60000"}, args...)
		cmd := exec.CommandContext(t.Context(), java, args...)
		cmd.Env = append(os.Environ(), "HEADGATE_TOKEN="+token)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	want := ""
	for left := 4; left >= 0; left-- {
		want += fmt.Sprintf("allowed=true remaining=%d resets=true degraded=OK\n", left)
	}
	want += "allowed=false remaining=0 resets=true degraded=OK\n"
	if out, err := ask(h.token, h.grpc); err != nil || out != want {
		t.Errorf("asked: %v\n%s\nwant\n%s", err, out, want)
	}
	for _, tt := range []struct{ token, domain, hits, want string }{
		{h.token, "", "1", "domain"},
		{h.token, "shop", "-1", "hits -1"},
		{h.token + "\n", "shop", "1", "token"},
	} {
		out, err := ask(tt.token, h.grpc, tt.domain, tt.hits)
		if err == nil || !strings.Contains(out, "IllegalArgumentException") || !strings.Contains(out, tt.want) || shows(out, h.token) {
			t.Errorf("refused for its %s: %v\n%s", tt.want, err, out)
		}
	}
	want = strings.Repeat("allowed=true remaining=- resets=false degraded=UNAVAILABLE\n", 6)
	if out, err := ask(h.token, fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t))); err != nil || out != want {
		t.Errorf("down: %v\n%s\nwant\n%s", err, out, want)
	}
}

// shows reports whether text has a secret, as it is or by its bytes, as logs of Java have it.
func shows(text, secret string) bool {
	bytes := strings.ReplaceAll(strings.Trim(fmt.Sprint([]byte(secret)), "[]"), " ", ", ")
	return strings.Contains(text, secret) || strings.Contains(text, bytes)
}

// TestPython installs the wheel of a release into an environment of its own, checks the types of
// the package and of a program that uses it, and runs its tests. The source distribution of
// the release makes a wheel of the same name.
//
//promise:works-with
func TestPython(t *testing.T) {
	t.Parallel()
	python := program(t, "python3")
	modules := tools(t, "python", "fastapi")
	work := t.TempDir()
	released := packed(t, "python")
	wheel := only(t, released+"/headgate-*.whl")
	source := folder(t, work, "source")
	build := []string{"PYTHONPATH=" + modules, "PIP_DISABLE_PIP_VERSION_CHECK=1"}
	run(t, source, nil, program(t, "tar"), "-x", "-z", "--strip-components=1", "-f", only(t, released+"/headgate-[0-9]*.tar.gz"))
	run(t, source, build, python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", "wheels", ".")
	if again := filepath.Base(only(t, source+"/wheels/*.whl")); again != filepath.Base(wheel) {
		t.Errorf("the source distribution makes %s, and the release has %s", again, filepath.Base(wheel))
	}

	venv := filepath.Join(work, "venv")
	run(t, work, nil, python, "-m", "venv", "--without-pip", venv)
	own := filepath.Join(venv, "bin", "python")
	run(t, work, build, python, "-m", "pip", "--python", own, "install", "--quiet", "--no-deps", "--no-index", wheel)
	// What is installed comes first, what the tests want besides after it.
	beside := []byte(modules + "\n")
	if err := os.WriteFile(filepath.Join(only(t, venv+"/lib/python*"), "site-packages", "tools.pth"), beside, 0o600); err != nil {
		t.Fatal(err)
	}
	app := folder(t, work, "app")
	if err := os.CopyFS(app, os.DirFS("python/test")); err != nil {
		t.Fatal(err)
	}
	run(t, source, []string{"MYPYPATH=src"}, own, "-m", "mypy", "src", filepath.Join(app, "typed.py"))
	readme := "HEADGATE_README=" + filepath.Join(source, "README.md")
	test(t, app, append(startHeadgate(t).env(t), readme), own, "-W", "error::ResourceWarning", "-m", "unittest", "--buffer")
}
