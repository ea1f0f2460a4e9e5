package script

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/internal/eventually"
)

// TestSignalEndsTheWaitForAPipe: a command that reads a named pipe whose writer says nothing ends by the first
// signal, and says that it has answered nothing.
func TestSignalEndsTheWaitForAPipe(t *testing.T) {
	rules := writeRules(t, userRules)
	for _, command := range []string{"replay", "recommend"} {
		t.Run(command, func(t *testing.T) {
			pipe := filepath.Join(t.TempDir(), "events")
			if err := unix.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "headgate", command, "--rules", rules, "--events", pipe)
			var errs bytes.Buffer
			cmd.Env, cmd.Stderr = environment(), &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			var writer int
			eventually.True(t, "the pipe is being read", func() bool {
				var err error
				writer, err = unix.Open(pipe, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) // fails while nobody reads
				return err == nil
			})
			defer unix.Close(writer)
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := <-ended; !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(errs.String(), "interrupted") {
				t.Errorf("%v\n%s", err, errs.String())
			}
		})
	}
}
