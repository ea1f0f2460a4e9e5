package migrate

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/testserver"
)

// application is what clients are to reach.
func application(t *testing.T) (port string) {
	t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") }))
	t.Cleanup(app.Close)
	_, port, err := net.SplitHostPort(app.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func freePort(t *testing.T) string { return strconv.Itoa(testserver.FreePort(t)) }

// until sends requests until one is denied with 429, and returns how many have passed, and the
// denial. Nobody is let through for ever: the test fails after fifty.
func until(t *testing.T, url string) (passed int, denied http.Header) {
	t.Helper()
	for passed = range 50 {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case resp.StatusCode == http.StatusTooManyRequests:
			return passed, resp.Header
		case resp.StatusCode != http.StatusOK || string(body) != "served":
			t.Fatalf("request %d: %s %s", passed+1, resp.Status, body)
		}
	}
	t.Fatal("nothing is denied")
	return 0, nil
}

// TestFromNginx: nginx limits by itself, then with Headgate beside it in shadow mode, then Headgate
// limits, then nginx by itself again. Five requests pass at once each time: that both refill
// meanwhile may let one more through on a slow machine.
//
//promise:importers
func TestFromNginx(t *testing.T) {
	p := follow(t, "nginx.md")
	app, auth := application(t), freePort(t)
	nginx := func(text string) string {
		for from, to := range map[string]string{":9000": ":" + app, ":9091": ":" + auth, "proxy_read_timeout 1s": "proxy_read_timeout 30s"} {
			text = strings.ReplaceAll(text, from, to)
		}
		return "http://" + testserver.Nginx(t, testserver.GatewayConfig{Text: text, Port: "8088"}).Addr
	}
	cutOver := regexp.MustCompile(`(?m)^.*# old$\n`).ReplaceAllString(p.files["asking.conf"], "")
	if strings.Contains(cutOver, "limit_req") {
		t.Fatalf("limits are left:\n%s", cutOver)
	}
	step := func(name, url string, byHeadgate bool) {
		t.Helper()
		passed, denied := until(t, url+"/search")
		if passed < 5 || (denied.Get("Retry-After") != "") != byHeadgate {
			t.Errorf("%s: %d pass, and the denial has %v", name, passed, denied)
		}
		if resp, err := http.Get(url + "/"); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: what has no limit: %v, %v", name, resp, err)
		}
	}
	step("before", nginx(p.files["old.conf"]), false)
	shadow := p.serve(t, 0, ":9091", ":"+auth)
	step("in shadow mode", nginx(p.files["asking.conf"]), false)
	shadow.Terminate()
	enforcing := p.serve(t, 1, ":9091", ":"+auth)
	edge := nginx(cutOver)
	step("cut over", edge, true)
	enforcing.Terminate()
	if resp, err := http.Get(edge + "/search"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("without Headgate: %v, %v", resp, err)
	}
	step("the way back", nginx(p.files["old.conf"]), false)
}

// TestFromKong: Headgate stands before what Kong stands for, lets all pass in shadow mode, and
// then limits as the plugin said.
//
//promise:importers
func TestFromKong(t *testing.T) {
	p := follow(t, "kong.md", "hour: 5", "year: 5")
	app := application(t)
	for i, limits := range []bool{false, true} {
		port := freePort(t)
		process := p.serve(t, i, ":8000", ":"+app, ":8088", ":"+port)
		url := "http://127.0.0.1:" + port + "/"
		if limits {
			if passed, denied := until(t, url); passed != 5 || denied.Get("Retry-After") == "" {
				t.Errorf("%d pass, and the denial has %v", passed, denied)
			}
		} else {
			for range 8 {
				if resp, err := http.Get(url); err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("in shadow mode: %v, %v", resp, err)
				}
			}
		}
		process.Terminate()
	}
}

// environmentIn returns the variables of the container of that name in a file of YAML.
func environmentIn(t *testing.T, text string) map[string]string {
	t.Helper()
	var tree any
	if err := yaml.Load([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if list, ok := v["env"].([]any); ok {
				for _, one := range list {
					pair := one.(map[string]any)
					found[pair["name"].(string)] = pair["value"].(string)
				}
			}
			for _, inner := range v {
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(tree)
	return found
}

// startUnder starts Headgate under the name of the old service by these variables alone, and
// returns it with where it answers HTTP.
func startUnder(t *testing.T, environment map[string]string) (process *testserver.Process, addr string) {
	t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "ratelimit")
	if err := os.Symlink(path, program); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program)
	command.Env = []string{}
	for name, value := range environment {
		command.Env = append(command.Env, name+"="+value)
	}
	if process, err = testserver.StartProcess(command); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Terminate)
	ready := regexp.MustCompile(`headgate ready .*http=(\S+)`)
	if err := process.Poll(func() error {
		found := ready.FindStringSubmatch(process.Output())
		if found == nil {
			return fmt.Errorf("it does not say that it is ready")
		}
		addr = found[1]
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return process, addr
}

// TestFromIstio: with the environment of the Deployment, but for ports, folders and the address of
// Redis, the rules of the ConfigMap are in force, and health is as its probe asks.
//
//promise:importers
func TestFromIstio(t *testing.T) {
	p := follow(t, "istio.md", "unit: minute", "unit: year")
	environment := environmentIn(t, p.files["deployment.yaml"])
	if len(environment) != 10 || environment["REDIS_URL"] != "redis:6379" {
		t.Fatalf("the environment is %v", environment)
	}
	data := t.TempDir()
	config := filepath.Join(data, environment["RUNTIME_SUBDIRECTORY"], "config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(config, "config.yaml"), []byte(p.files["config.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"RUNTIME_ROOT": data, "REDIS_URL": testserver.Redis(t, testserver.RedisConfig{}).Addr, "HOST": "127.0.0.1", "GRPC_HOST": "127.0.0.1",
		"PORT": "0", "GRPC_PORT": "0", "DEBUG_HOST": "127.0.0.1", "DEBUG_PORT": "0", "HEADGATE_STORE_BUDGET": "10s",
	} {
		environment[name] = value
	}
	process, addr := startUnder(t, environment)
	ask := func(path string) int {
		resp, err := http.Post("http://"+addr+"/json", "application/json", strings.NewReader(
			`{"domain": "ratelimit", "descriptors": [{"entries": [{"key": "PATH", "value": "`+path+`"}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if first, second, other := ask("/productpage"), ask("/productpage"), ask("/"); first != 200 || second != 429 || other != 200 {
		t.Errorf("answers %d, %d and %d\n%s", first, second, other, process.Output())
	}
	if resp, err := http.Get("http://" + addr + "/healthcheck"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("health: %v, %v", resp, err)
	}
}

// TestFromEnvoyGateway: the variables that the page adds to those of Envoy Gateway are taken: who
// shows no certificate is not answered, and what was kept is where the page says. That the rules
// come by xDS with all the others is shown with a control plane elsewhere (test/e2e).
//
//promise:importers
func TestFromEnvoyGateway(t *testing.T) {
	p := follow(t, "envoy-gateway.md")
	environment := environmentIn(t, p.files["envoy-gateway.yaml"])
	if environment["GRPC_CLIENT_TLS_CACERT"] != "/certs/ca.crt" || environment["HEADGATE_STATE_DIR"] == "" || len(environment) != 2 {
		t.Fatalf("the page adds %v", environment)
	}
	c := testserver.NewCertificates(t)
	for name, value := range map[string]string{
		"HEADGATE_STATE_DIR": filepath.Join(t.TempDir(), "state"), "GRPC_CLIENT_TLS_CACERT": c.CAFile,
		"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": c.CertFile, "GRPC_SERVER_TLS_KEY": c.KeyFile,
		"CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL": "127.0.0.1:" + freePort(t), "USE_STATSD": "false",
		"REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": testserver.Redis(t, testserver.RedisConfig{}).Addr,
		"HOST": "127.0.0.1", "GRPC_HOST": "127.0.0.1", "PORT": "0", "GRPC_PORT": "0", "DEBUG_HOST": "127.0.0.1", "DEBUG_PORT": "0", "LOG_LEVEL": "info",
	} {
		environment[name] = value
	}
	process, _ := startUnder(t, environment)
	grpc := regexp.MustCompile(`headgate ready .*grpc=(\S+)`).FindStringSubmatch(process.Output())[1]
	for shows, want := range map[bool]bool{false: false, true: true} {
		config := c.Client()
		if shows {
			cert, key := c.Issue(t, testserver.Leaf{CommonName: "*"})
			config = c.ClientWith(t, cert, key)
		}
		if err := greet(t, grpc, config); (err == nil) != want {
			t.Errorf("a certificate is shown: %t; %v", shows, err)
		}
	}
}
