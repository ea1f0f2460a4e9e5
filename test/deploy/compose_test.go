package deploy

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

func TestMain(m *testing.M) { testserver.RunTests(m) }

const composeDir = "../../deploy/compose"

// composition is what is read of compose.yaml.
type composition struct {
	Services map[string]struct {
		ReadOnly    bool              `yaml:"read_only"`
		Environment map[string]string `yaml:"environment"`
		Volumes     []string          `yaml:"volumes"`
		Ports       []string          `yaml:"ports"`
	} `yaml:"services"`
	Volumes map[string]any `yaml:"volumes"`
}

func readComposition(t *testing.T) composition {
	t.Helper()
	var c composition
	if err := yaml.Unmarshal(read(t, "compose.yaml"), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(composeDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestComposeMounts holds that what is mounted is there, that nobody but this machine reaches
// a port, and that Grafana and Prometheus name each other and files that are mounted.
func TestComposeMounts(t *testing.T) {
	c := readComposition(t)
	mounted := 0
	for name, service := range c.Services {
		for _, volume := range service.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if _, named := c.Volumes[source]; named {
				continue
			}
			if _, err := os.Stat(filepath.Join(composeDir, source)); err != nil {
				t.Errorf("%s mounts %s: %v", name, volume, err)
			}
			if !strings.HasSuffix(volume, ":ro") {
				t.Errorf("%s may write to %s", name, volume)
			}
			mounted++
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s is reached from outside at %s", name, port)
			}
		}
	}
	if mounted < 8 || !c.Services["headgate"].ReadOnly {
		t.Errorf("%d mounts, headgate is read-only: %v", mounted, c.Services["headgate"].ReadOnly)
	}
	var prometheus struct {
		RuleFiles []string `yaml:"rule_files"`
		Scrape    []struct {
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal(read(t, "prometheus.yml"), &prometheus); err != nil {
		t.Fatal(err)
	}
	volumes := strings.Join(c.Services["prometheus"].Volumes, "\n")
	for _, name := range prometheus.RuleFiles {
		if !strings.Contains(volumes, "/etc/prometheus/"+name+":ro") {
			t.Errorf("prometheus.yml names %s, which is not mounted", name)
		}
	}
	_, port, _ := strings.Cut(c.Services["headgate"].Environment["HEADGATE_METRICS_ADDR"], ":")
	if target := prometheus.Scrape[0].Static[0].Targets[0]; len(prometheus.RuleFiles) != 2 || target != "headgate:"+port {
		t.Errorf("Prometheus asks %s by %q, and metrics are at port %s", target, prometheus.RuleFiles, port)
	}
}

// TestComposeRuns starts what the container would run, by its environment, with a Redis that
// asks for the password, PostgreSQL and Prometheus of this machine in the place of theirs.
func TestComposeRuns(t *testing.T) {
	environment := readComposition(t).Services["headgate"].Environment
	redis := testserver.Redis(t, testserver.RedisConfig{Password: "headgate"})
	database := testserver.PostgresDatabase(t)
	health, api, metrics := port(t), port(t), port(t)
	dir := t.TempDir()
	here := map[string]string{
		"redis:6379":               redis.Addr,
		"/etc/headgate/rules":      abs(t, "../../examples/rules/quickstart.yaml"),
		"/etc/headgate/tiers.yaml": abs(t, "../../examples/tenants/tiers.yaml"),
		"/var/lib/headgate":        dir,
		"0.0.0.0:9102":             metrics,
		"postgres://headgate:headgate@postgres:5432/headgate?sslmode=disable": database,
	}
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(path, "serve", "--http-addr", api, "--grpc-addr", "127.0.0.1:0", "--ops-addr", "", "--health-addr", health, "--store-budget", "10s")
	command.Env = []string{}
	replaced := 0
	for name, value := range environment {
		for container, machine := range here {
			if strings.Contains(value, container) {
				value = strings.ReplaceAll(value, container, machine)
				replaced++
			}
		}
		command.Env = append(command.Env, name+"="+value)
	}
	if replaced != len(here) {
		t.Errorf("%d values of containers were replaced, want %d", replaced, len(here))
	}
	process, err := testserver.StartProcess(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Terminate)
	if err := eventually.Poll(process.Ended(), func() error { return ok("http://" + health + "/readyz") }); err != nil {
		t.Fatalf("%v\n%s", err, process.Output())
	}
	if strings.Contains(process.Output(), "variable that is no setting") {
		t.Errorf("the environment has a slip:\n%s", process.Output())
	}
	for i, want := range []int{200, 429} {
		answer, err := http.Post("http://"+api+"/v1/check", "application/json", strings.NewReader(`{"key":"user:42","limit":1,"window_ms":3600000}`))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("check %d: %s, want %d: %s", i, answer.Status, want, body)
		}
	}
	scraped(t, metrics)
}

// scraped holds that Prometheus takes its configuration, with its rules, and finds the process.
func scraped(t *testing.T, metrics string) {
	t.Helper()
	config := string(read(t, "prometheus.yml"))
	config = strings.ReplaceAll(config, "headgate:9102", metrics)
	config = strings.ReplaceAll(config, "15s", "200ms")
	config = strings.ReplaceAll(config, "- headgate-", "- "+abs(t, "../../deploy/prometheus")+"/headgate-")
	prometheus := testserver.Prometheus(t, config)
	eventually.Nil(t, "Prometheus finds the process", func() error {
		samples, err := prometheus.Query(`up{job="headgate"} == 1 and on() headgate_requests_total{outcome="denied"} > 0`)
		if err == nil && len(samples) == 0 {
			err = fmt.Errorf("no sample: %s", prometheus.Output())
		}
		return err
	})
}

func ok(address string) error {
	answer, err := http.Get(address)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", address, answer.Status)
	}
	return nil
}

func port(t *testing.T) string { return fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t)) }

func abs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
