//go:build unix

package signing_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/signing"
)

// A pipe without a writer, and a device that never ends, are refused and not read.
func TestKeysOfWhatIsNoFileAreRefused(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", t.TempDir()} {
		for name, load := range map[string]func() error{
			"signer":   func() error { _, err := signing.LoadSigner(path); return err },
			"verifier": func() error { _, err := signing.LoadVerifier(path); return err },
		} {
			if err := load(); err == nil || !strings.Contains(err.Error(), "not a regular file") || !strings.Contains(err.Error(), "hint: ") {
				t.Errorf("%s of %s: %v", name, path, err)
			}
		}
	}
}
