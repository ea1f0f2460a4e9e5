//go:build unix

package rulesource

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRenew: who could read and write a file by its mode, as its owner or by its group can do so afterwards, and a link to it
// stays a link.
func TestRenew(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	owner, group := os.Geteuid(), another(t)
	if owner == 0 {
		owner = 1 // which only root may name
	}
	for _, err := range []error{os.Chown(path, owner, group), os.Chmod(path, 0o640), os.Symlink("file", link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := Renew(link, func(f *os.File) error { _, err := f.WriteString("new"); return err }); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "new" {
		t.Errorf("the file has %q, %v", text, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Sys().(*syscall.Stat_t); int(got.Uid) != owner || int(got.Gid) != group || info.Mode().Perm() != 0o640 {
		t.Errorf("the file has the owner %d, the group %d and the mode %v, want %d, %d and 0640", got.Uid, got.Gid, info.Mode().Perm(), owner, group)
	}
	if to, err := os.Readlink(link); err != nil || to != "file" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if err := Renew(filepath.Join(dir, "none"), nil); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// another is a group that this process may give files to, and that its new files do not have.
func another(t *testing.T) int {
	t.Helper()
	if os.Geteuid() == 0 {
		return os.Getegid() + 1
	}
	all, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range all {
		if group != os.Getegid() {
			return group
		}
	}
	t.Skip("this user has one group only")
	return 0
}
