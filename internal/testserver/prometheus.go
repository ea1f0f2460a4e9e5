package testserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	// prometheusCall bounds one call of Prometheus' API.
	prometheusCall = 10 * time.Second
	// prometheusAnswer bounds how much of an answer is read.
	prometheusAnswer = 16 << 20
)

// prometheusClient keeps no connection, which would outlive the server.
var prometheusClient = http.Client{Timeout: prometheusCall, Transport: &http.Transport{DisableKeepAlives: true}}

// PrometheusServer is a running Prometheus with an empty database.
type PrometheusServer struct {
	// Addr is HOST:PORT of its API.
	Addr string

	proc *Process
}

// Sample is one series of the answer to a query, at the time of the query.
type Sample struct {
	// Labels are those of the series; the name of the metric is "__name__".
	Labels map[string]string
	// Value is the number, which may be NaN or infinite.
	Value float64
}

// Prometheus starts a Prometheus with the text of a configuration file and the
// features to enable, waits until it is ready, and stops it when the test ends.
// Files that the configuration names need absolute paths.
func Prometheus(t testing.TB, config string, features ...string) *PrometheusServer {
	t.Helper()
	binary := Binary(t, "prometheus")
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	for range portAttempts {
		s := &PrometheusServer{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(t)))}
		args := []string{
			"--config.file=" + file, "--storage.tsdb.path=" + filepath.Join(dir, "data"),
			"--web.listen-address=" + s.Addr, "--log.level=warn",
		}
		if len(features) > 0 {
			args = append(args, "--enable-feature="+strings.Join(features, ","))
		}
		if s.proc, err = StartProcess(exec.Command(binary, args...)); err != nil {
			break
		}
		if err = s.proc.Poll(s.ready); err == nil {
			t.Cleanup(s.proc.Terminate)
			return s
		}
		s.proc.Kill()
		if !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	t.Fatalf("start prometheus: %v", err)
	return nil
}

// ready reports whether the server answers queries.
func (s *PrometheusServer) ready() error {
	resp, err := prometheusClient.Get("http://" + s.Addr + "/-/ready")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", resp.Status)
	}
	return nil
}

// Kill ends the server at once.
func (s *PrometheusServer) Kill() { s.proc.Kill() }

// Output returns the end of what the server has logged.
func (s *PrometheusServer) Output() string { return s.proc.Output() }

// Query answers a PromQL expression, a scalar or an instant vector, at the present
// time. An error tells that the expression is wrong or that the server is gone.
func (s *PrometheusServer) Query(expr string) ([]Sample, error) {
	resp, err := prometheusClient.PostForm("http://"+s.Addr+"/api/v1/query", url.Values{"query": {expr}})
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, prometheusAnswer))
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	samples, err := parseSamples(body)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	return samples, nil
}

// parseSamples reads an answer of Prometheus' query API.
func parseSamples(body []byte) ([]Sample, error) {
	var answer struct {
		Error string `json:"error"`
		Data  struct {
			Type   string          `json:"resultType"`
			Result json.RawMessage `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("answer %.200q: %w", body, err)
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("refused: %s", answer.Error)
	}
	var points []struct {
		Labels map[string]string `json:"metric"`
		Value  point             `json:"value"`
	}
	switch answer.Data.Type {
	case "vector":
		if err := json.Unmarshal(answer.Data.Result, &points); err != nil {
			return nil, fmt.Errorf("vector %.200q: %w", answer.Data.Result, err)
		}
	case "scalar":
		var scalar point
		if err := json.Unmarshal(answer.Data.Result, &scalar); err != nil {
			return nil, fmt.Errorf("scalar %.200q: %w", answer.Data.Result, err)
		}
		return []Sample{{Value: float64(scalar)}}, nil
	default:
		return nil, fmt.Errorf("result of type %q; hint: ask for a vector or a scalar", answer.Data.Type)
	}
	samples := make([]Sample, len(points))
	for i, p := range points {
		samples[i] = Sample{Labels: p.Labels, Value: float64(p.Value)}
	}
	return samples, nil
}

// point is the value of a pair [time, "value"].
type point float64

// UnmarshalJSON implements json.Unmarshaler.
func (p *point) UnmarshalJSON(b []byte) error {
	var text string
	pair := []any{new(float64), &text}
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	value, err := strconv.ParseFloat(text, 64)
	*p = point(value)
	return err
}
