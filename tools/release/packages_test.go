package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// inPackages are files of every package, with how ls shows their rights.
var inPackages = map[string]string{
	"/usr/bin/headgate":                                  "-rwxr-xr-x",
	"/usr/lib/systemd/system/headgate.service":           "-rw-r--r--",
	"/etc/headgate/headgate.yaml":                        "-rw-r--r--",
	"/usr/share/man/man1/headgate.1.gz":                  "-rw-r--r--",
	"/usr/share/bash-completion/completions/headgate":    "-rw-r--r--",
	"/usr/share/doc/headgate/copyright":                  "-rw-r--r--",
	"/usr/share/doc/headgate/THIRD_PARTY_LICENCES":       "-rw-r--r--",
	"/usr/share/fish/vendor_completions.d/headgate.fish": "-rw-r--r--",
}

// TestDebian lists, checks and unpacks the package with the tools of Debian, and runs the
// program in it.
//
//promise:one-binary
func TestDebian(t *testing.T) {
	tool, err := exec.LookPath("dpkg-deb")
	if err != nil {
		t.Skip("this machine has no dpkg-deb")
	}
	dir := t.TempDir()
	r := built(t, dir)
	name := filepath.Join(r.out, "headgate_1.2.3_linux_"+runtime.GOARCH+".deb")
	listed := output(t, tool, "--contents", name)
	for path, mode := range inPackages {
		if !lists(listed, mode, "."+path) {
			t.Errorf("no %s %s in\n%s", mode, path, listed)
		}
	}
	for line := range strings.Lines(listed) {
		if !strings.Contains(line, " root/root ") {
			t.Errorf("not of root: %s", line)
		}
	}
	for field, want := range map[string]string{"Package": "headgate", "Version": "1.2.3-1", "Architecture": runtime.GOARCH} {
		if got := strings.TrimSpace(output(t, tool, "--field", name, field)); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	if got := output(t, tool, "--info", name, "conffiles"); got != "/etc/headgate/headgate.yaml\n" {
		t.Errorf("files of administrators are %q", got)
	}
	for _, script := range []string{"postinst", "prerm"} {
		text := filepath.Join(dir, script)
		if err := os.WriteFile(text, []byte(output(t, tool, "--info", name, script)), 0o600); err != nil {
			t.Fatal(err)
		}
		output(t, "sh", "-n", text)
	}
	root := filepath.Join(dir, "root")
	output(t, tool, "--extract", name, root)
	if got := output(t, filepath.Join(root, "usr/bin/headgate"), "version"); !strings.HasSuffix(got, " v1.2.3\n") {
		t.Errorf("the program says %q", got)
	}
}

// TestRPM holds that there is a package, and asks rpm what is in it where the machine has it.
//
//promise:one-binary
func TestRPM(t *testing.T) {
	r := built(t, t.TempDir())
	name := filepath.Join(r.out, "headgate_1.2.3_linux_"+runtime.GOARCH+".rpm")
	data, err := os.ReadFile(name)
	if err != nil || !bytes.HasPrefix(data, []byte{0xed, 0xab, 0xee, 0xdb}) {
		t.Fatalf("%d bytes, which are no package: %v", len(data), err)
	}
	tool, err := exec.LookPath("rpm")
	if err != nil {
		return
	}
	listed := output(t, tool, "-qplv", name)
	for path, mode := range inPackages {
		if !lists(listed, mode, path) {
			t.Errorf("no %s %s in\n%s", mode, path, listed)
		}
	}
	if got := output(t, tool, "-qp", "--qf", "%{NAME} %{VERSION} %{RELEASE} %{LICENSE} %{BUILDHOST} [%{FILENAMES}=%{FILEFLAGS:fflags} ]", name); !strings.HasPrefix(got, "headgate 1.2.3 1 Apache-2.0 localhost ") || !strings.Contains(got, "/etc/headgate/headgate.yaml=cn ") {
		t.Errorf("the package is %q", got)
	}
}

// lists reports whether a listing has a line that begins with mode and ends with path.
func lists(listed, mode, path string) bool {
	for line := range strings.Lines(listed) {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == mode && fields[len(fields)-1] == path {
			return true
		}
	}
	return false
}

func output(t *testing.T, command ...string) string {
	t.Helper()
	run := exec.Command(command[0], command[1:]...)
	var said bytes.Buffer
	run.Stderr = &said
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%q: %v: %s", command, err, said.String())
	}
	return string(out)
}
