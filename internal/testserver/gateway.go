package testserver

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// GatewayConfig is the configuration of an nginx, HAProxy, Caddy or Traefik.
type GatewayConfig struct {
	// Text is the configuration file.
	Text string
	// Port stands in Text for the port to listen on; a free one takes its place
	// wherever it stands.
	Port string
	// Files are further files beside that of Text, by name.
	Files map[string]string
}

// Gateway is a running nginx, HAProxy, Caddy or Traefik.
type Gateway struct {
	// Addr is HOST:PORT on which it listens.
	Addr string

	proc *Process
}

// gatewayKind is how a kind of gateway is run.
type gatewayKind struct {
	binary string
	// file is the name of the configuration file.
	file string
	// args are the arguments and env the environment that it needs when its files are
	// in dir.
	args, env func(dir string) []string
	// prepare, when not nil, changes the configuration so that the server needs no
	// other folder than dir.
	prepare func(text, dir string) string
}

// startGateway starts a gateway, waits until it accepts connections, and stops it
// when the test ends.
func startGateway(t testing.TB, kind gatewayKind, c GatewayConfig) *Gateway {
	t.Helper()
	binary := Binary(t, kind.binary)
	var err error
	for range portAttempts {
		port := strconv.Itoa(FreePort(t))
		g := &Gateway{Addr: net.JoinHostPort("127.0.0.1", port)}
		dir := t.TempDir()
		c.write(t, kind, dir, port)
		cmd := exec.Command(binary, kind.args(dir)...)
		cmd.Dir = dir
		if kind.env != nil {
			cmd.Env = append(os.Environ(), kind.env(dir)...)
		}
		if g.proc, err = StartProcess(cmd); err != nil {
			break
		}
		if err = g.proc.Poll(g.accepts); err == nil {
			t.Cleanup(g.proc.Terminate)
			return g
		}
		g.proc.Kill()
		if !strings.Contains(strings.ToLower(err.Error()), "address already in use") {
			break
		}
	}
	t.Fatalf("start %s: %v", kind.binary, err)
	return nil
}

func (c *GatewayConfig) write(t testing.TB, kind gatewayKind, dir, port string) {
	t.Helper()
	// As a whole number: another port may have it in the middle.
	text := regexp.MustCompile(`\b`+regexp.QuoteMeta(c.Port)+`\b`).ReplaceAllLiteralString(c.Text, port)
	if kind.prepare != nil {
		text = kind.prepare(text, dir)
	}
	files := map[string]string{kind.file: text}
	maps.Copy(files, c.Files)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatalf("write the configuration of %s: %v", kind.binary, err)
		}
	}
}

// accepts reports whether the gateway takes connections.
func (g *Gateway) accepts() error {
	conn, err := net.DialTimeout("tcp", g.Addr, time.Second)
	if err != nil {
		return fmt.Errorf("not listening: %w", err)
	}
	return conn.Close()
}

// Output returns the end of what the gateway has logged.
func (g *Gateway) Output() string { return g.proc.Output() }
