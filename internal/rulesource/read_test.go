package rulesource

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/rules/rulefile"
)

func expectReadError(t *testing.T, path, want string) {
	t.Helper()
	_, err := Read(path, false)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("read %s: %v, want an error with %q", path, err, want)
	}
}

func TestReadBounds(t *testing.T) {
	dir := t.TempDir()
	sparse := dir + "/sparse.yaml"
	write(t, sparse, "")
	if err := os.Truncate(sparse, 100<<20); err != nil {
		t.Fatal(err)
	}
	expectReadError(t, sparse, "100 MiB, larger than ")

	pipe := dir + "/pipe.yaml"
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	expectReadError(t, pipe, "not a regular file")

	deep := t.TempDir()
	write(t, filepath.Join(deep, strings.Repeat("d/", maxDepth+1), "a.yaml"), "domain: a")
	expectReadError(t, deep, "directories deep; hint:")

	loop := t.TempDir()
	if err := os.Symlink(loop, loop+"/self"); err != nil {
		t.Fatal(err)
	}
	expectReadError(t, loop, "directories deep; hint:")

	if err := os.Symlink("self.yaml", dir+"/self.yaml"); err != nil {
		t.Fatal(err)
	}
	expectReadError(t, dir+"/self.yaml", "symbolic links; hint:")
	expectReadError(t, t.TempDir(), "no rule files; hint: of a directory, files that end in .yaml or .yml")
	if _, err := Read(t.TempDir(), true); err == nil || !strings.Contains(err.Error(), "hint: of a directory, all files but those") {
		t.Errorf("any name: %v", err)
	}
	expectReadError(t, dir+"/absent.yaml", "no such file")
}

// The last good rules are no more than rules can be, and what is no file is not waited for.
func TestLastGoodBounds(t *testing.T) {
	for want, place := range map[string]func(path string) error{
		"not a regular file": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"more than 268435456 bytes": func(path string) error {
			write(t, path, "")
			return os.Truncate(path, 20<<30)
		},
	} {
		dir := t.TempDir()
		if err := place(filepath.Join(dir, lastGoodName)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := loadLastGood(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

func TestReadNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.yaml", "a.yml", "sub/c.yml", "schema.json", "d.txt", ".e.yaml", "a_test.yaml", "a.test.yaml", "sub/..x/y.yaml"} {
		write(t, filepath.Join(dir, name), "domain: x")
	}
	names := func(path string, anyName bool) string {
		files, err := Read(path, anyName)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, f := range files {
			list = append(list, strings.TrimPrefix(f.Name, dir+"/"))
		}
		return strings.Join(list, " ")
	}
	if got, want := names(dir, false), "a.yml a_test.yaml b.yaml sub/c.yml"; got != want {
		t.Errorf("read %q, want %q", got, want)
	}
	if got, want := names(dir, true), "a.yml a_test.yaml b.yaml d.txt schema.json sub/c.yml"; got != want {
		t.Errorf("read %q, want %q", got, want)
	}
	if got, want := names(dir+"/d.txt", false), "d.txt"; got != want {
		t.Errorf("read %q, want %q", got, want)
	}
}

func TestHashTellsFilesApart(t *testing.T) {
	f := func(parts ...string) []rulefile.File {
		var files []rulefile.File
		for i := 0; i < len(parts); i += 2 {
			files = append(files, rulefile.File{Name: parts[i], Data: []byte(parts[i+1])})
		}
		return files
	}
	seen := map[string]string{}
	for _, files := range [][]rulefile.File{
		nil, f("", ""), f("a", "b"), f("ab", ""), f("", "ab"), f("a", "", "b", ""), f("a", "b", "", ""), f("b", "a"),
	} {
		h := hashOf(files)
		if other, ok := seen[h]; ok {
			t.Errorf("%v and %s have one hash", files, other)
		}
		seen[h] = fmt.Sprint(files)
	}
}

func TestLinksAreReadOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/one/f", "1")
	write(t, dir+"/two/f", "2")
	if err := os.Symlink("one", dir+"/current"); err != nil {
		t.Fatal(err)
	}
	l := newLinks()
	first, err := l.resolve(dir + "/current/../current/f")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir + "/current"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("two", dir+"/current"); err != nil {
		t.Fatal(err)
	}
	second, err := l.resolve(dir + "/current/f")
	if err != nil || first != second || !strings.HasSuffix(first, "/one/f") {
		t.Errorf("%s, then %s, %v", first, second, err)
	}
}
