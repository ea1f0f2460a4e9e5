package testserver

import (
	"context"
	"encoding/json"
	"errors"
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
)

// EnvoyServer is a running Envoy proxy.
type EnvoyServer struct {
	// Admin is HOST:PORT of its administration.
	Admin string

	t         testing.TB
	proc      *Process
	listeners map[string]string
}

// Envoy starts an Envoy with that configuration (YAML), waits until it is live,
// and stops it when the test ends. Listeners and the administration should have
// port 0 and take a free one; see Listener and Admin.
func Envoy(t testing.TB, config string) *EnvoyServer {
	t.Helper()
	binary := Binary(t, "envoy")
	dir := t.TempDir()
	configFile := filepath.Join(dir, "envoy.yaml")
	adminFile := filepath.Join(dir, "admin")
	if err := os.WriteFile(configFile, []byte(config), 0o600); err != nil {
		t.Fatalf("write the configuration of Envoy: %v", err)
	}
	proc, err := StartProcess(exec.Command(binary,
		"--config-path", configFile,
		"--admin-address-path", adminFile,
		"--disable-hot-restart",
		"--concurrency", "1",
		"--log-level", "warning",
	))
	if err != nil {
		t.Fatalf("start envoy: %v", err)
	}
	s := &EnvoyServer{t: t, proc: proc}
	t.Cleanup(proc.Terminate)
	if err := proc.Poll(func() error { return s.live(adminFile) }); err != nil {
		t.Fatalf("start envoy: %v", err)
	}
	return s
}

// live reports whether Envoy serves, and learns its addresses.
func (s *EnvoyServer) live(adminFile string) error {
	admin, err := os.ReadFile(adminFile)
	if err != nil {
		return err
	}
	s.Admin = strings.TrimSpace(string(admin))
	state, err := s.get("/ready")
	if err != nil {
		return err
	}
	if strings.TrimSpace(state) != "LIVE" {
		return fmt.Errorf("envoy is %s", state)
	}
	return s.readListeners()
}

func (s *EnvoyServer) readListeners() error {
	body, err := s.get("/listeners?format=json")
	if err != nil {
		return err
	}
	var told struct {
		Statuses []struct {
			Name    string `json:"name"`
			Address struct {
				Socket struct {
					Address string `json:"address"`
					Port    int    `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal([]byte(body), &told); err != nil {
		return fmt.Errorf("read the listeners of envoy: %w", err)
	}
	if len(told.Statuses) == 0 {
		return errors.New("envoy has no listener")
	}
	s.listeners = make(map[string]string)
	for _, l := range told.Statuses {
		s.listeners[l.Name] = net.JoinHostPort(l.Address.Socket.Address, strconv.Itoa(l.Address.Socket.Port))
	}
	return nil
}

// get asks the administration.
func (s *EnvoyServer) get(path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Admin+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("envoy %s: %s: %s", path, resp.Status, body)
	}
	return string(body), err
}

// Listener returns HOST:PORT of the listener with that name.
func (s *EnvoyServer) Listener(name string) string {
	s.t.Helper()
	addr, ok := s.listeners[name]
	if !ok {
		s.t.Fatalf("envoy has no listener %q, only %v", name, s.listeners)
	}
	return addr
}

// Counter returns the value of a statistic, such as
// "cluster.backend.ratelimit.over_limit"; 0 when it was never counted.
func (s *EnvoyServer) Counter(name string) int64 {
	s.t.Helper()
	body, err := s.get("/stats?format=json&filter=^" + name + "$")
	if err != nil {
		s.t.Fatalf("read the statistics of envoy: %v", err)
	}
	var told struct {
		Stats []struct {
			Name  string `json:"name"`
			Value int64  `json:"value"`
		} `json:"stats"`
	}
	if err := json.Unmarshal([]byte(body), &told); err != nil {
		s.t.Fatalf("read the statistics of envoy: %v", err)
	}
	for _, stat := range told.Stats {
		if stat.Name == name {
			return stat.Value
		}
	}
	return 0
}

// Output returns the end of what Envoy has logged.
func (s *EnvoyServer) Output() string { return s.proc.Output() }
