package systemd_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/systemd"
)

// TestManagerIsTold sends to sockets with a path and of the abstract name space.
func TestManagerIsTold(t *testing.T) {
	sockets := []string{filepath.Join(t.TempDir(), "notify")}
	if runtime.GOOS == "linux" {
		sockets = append(sockets, fmt.Sprintf("@headgate-test-%d", os.Getpid()))
	}
	for _, socket := range sockets {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		m := systemd.Manager{Socket: socket}
		for want, tell := range map[string]func() error{"READY=1": m.Ready, "STOPPING=1": m.Stopping} {
			if err := tell(); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 64)
			n, err := conn.Read(got)
			if err != nil || string(got[:n]) != want {
				t.Errorf("%s: %q, %v, want %q", socket, got[:n], err, want)
			}
		}
	}
}

// TestNobodyIsTold holds that a process without a manager says nothing, and that a socket
// which is gone is an error that names it.
func TestNobodyIsTold(t *testing.T) {
	if err := (systemd.Manager{}).Ready(); err != nil {
		t.Error(err)
	}
	gone := filepath.Join(t.TempDir(), "gone")
	if err := (systemd.Manager{Socket: gone}).Stopping(); err == nil || !strings.Contains(err.Error(), "tell systemd STOPPING=1") || !strings.Contains(err.Error(), gone) {
		t.Errorf("a socket that is gone: %v", err)
	}
}
