//go:build unix

package signing_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/signing"
)

// A file of keys that tells no size, as a pipe or a device, is read no further than one of keys may be.
func TestKeysOfAnEndlessFileAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, load := range map[string]func() error{
		"signer":   func() error { _, err := signing.LoadSigner(path); return err },
		"verifier": func() error { _, err := signing.LoadVerifier(path); return err },
	} {
		written := make(chan int64, 1)
		go func() {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				written <- -1
				return
			}
			defer f.Close()
			n, _ := io.Copy(f, strings.NewReader(strings.Repeat("x", 8<<20))) // ends where nobody reads any more
			written <- n
		}()
		err := load()
		if err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("%s: %v, want too large", name, err)
		}
		if n := <-written; n < 0 || n >= 8<<20 {
			t.Errorf("%s: %d bytes were read", name, n)
		}
	}
}
