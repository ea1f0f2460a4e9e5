//go:build unix

package tlsfile_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/tlsfile"
)

// TestPipeInTheWay: a pipe in the place of a certificate that is in force is told and waited for by nobody. At the start
// it is refused.
func TestPipeInTheWay(t *testing.T) {
	f, files := newFolder(t, testserver.NewCertificates(t))
	s := load(t, files)
	if err := os.Remove(f.path("cert.pem")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(f.path("cert.pem"), 0o600); err != nil {
		t.Skip(err)
	}
	want := "read " + f.path("cert.pem") + ": not a regular file"
	_, _ = s.Reload(now) // what is wrong is told when it is found twice
	if changed, err := s.Reload(now); !changed || err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("reload: %v, %v", changed, err)
	}
	if s.State().NotAfter.IsZero() {
		t.Error("the certificate of before is not in force")
	}
	if _, err := tlsfile.Load(files); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("load: %v", err)
	}
}
