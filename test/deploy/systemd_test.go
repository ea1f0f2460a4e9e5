package deploy

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// maxExposure is the score of `systemd-analyze security` that the unit may have at most, in
// tenths: 0 is a service that can do nothing, 100 one that can do all.
const maxExposure = "15"

// unit writes the unit with the program that was built, and returns its path and the command
// line that it starts.
func unit(t *testing.T) (path string, start []string) {
	t.Helper()
	data, err := os.ReadFile("../../deploy/systemd/headgate.service")
	if err != nil {
		t.Fatal(err)
	}
	program, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	// The pages for man are not installed here.
	text := strings.NewReplacer("/usr/bin/headgate", program, "man:headgate(1) ", "").Replace(string(data))
	path = filepath.Join(t.TempDir(), "headgate.service")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(text)
	if found == nil {
		t.Fatal("the unit starts nothing")
	}
	return path, strings.Fields(found[1])
}

// TestUnit asks systemd what it thinks of the unit.
func TestUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("this machine has no systemd-analyze")
	}
	path, _ := unit(t)
	// Of a key that it does not know it only warns.
	if out, err := exec.Command(analyze, "verify", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("verify: %v\n%s", err, out)
	}
	if out, err := exec.Command(analyze, "security", "--offline=yes", "--threshold="+maxExposure, path).CombinedOutput(); err != nil {
		t.Errorf("security: %v\n%s", err, out)
	}
}

// TestManagerIsTold starts what the unit starts, with the sample of settings in the place of
// those of an administrator, and listens in the place of systemd.
func TestManagerIsTold(t *testing.T) {
	_, start := unit(t)
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	api := port(t)
	command := exec.Command(start[0], start[1:]...)
	for i, arg := range command.Args {
		if arg == "/etc/headgate/headgate.yaml" {
			command.Args[i] = abs(t, "../../deploy/headgate.sample.yaml")
		}
	}
	command.Env = []string{"NOTIFY_SOCKET=" + socket, "HEADGATE_STATE_DIR=" + t.TempDir(), "HEADGATE_HTTP_ADDR=" + api,
		"HEADGATE_GRPC_ADDR=127.0.0.1:0", "HEADGATE_OPS_ADDR=", "HEADGATE_DRAIN_DELAY=0s"}
	process, err := testserver.StartProcess(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Terminate)
	told(t, manager, process, "READY=1")
	conn, err := net.Dial("tcp", api)
	if err != nil {
		t.Fatalf("the process says that it serves: %v", err)
	}
	conn.Close()
	if err := process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	told(t, manager, process, "STOPPING=1")
	<-process.Ended()
}

// told waits until the manager is told a state.
func told(t *testing.T, manager *net.UnixConn, process *testserver.Process, want string) {
	t.Helper()
	var got string
	err := eventually.Poll(process.Ended(), func() error {
		if err := manager.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			return err
		}
		data := make([]byte, 64)
		n, err := manager.Read(data)
		got = string(data[:n])
		return err
	})
	if err != nil || got != want {
		t.Fatalf("told %q, %v, want %q:\n%s", got, err, want, process.Output())
	}
}
