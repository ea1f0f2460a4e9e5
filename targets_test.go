package headgate_test

import (
	"go/build/constraint"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testTags are the build tags that a test may ask for: `make test` runs the tests with the
// race detector where anything of ours runs side by side (scripts/serial.sh) and, where nothing
// does, or one of these files, the constant raceEnabled or package racetest says that some are left
// out by it, without it.
var testTags = []string{"race", "linux", "darwin", "unix", "windows"}

// TestEachTestHasATarget holds that no tag keeps a test from `make test`.
func TestEachTestHasATarget(t *testing.T) {
	eachTestFile(t, func(path, text string) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "package ") {
				break
			}
			if !constraint.IsGoBuild(line) {
				continue
			}
			expr, err := constraint.Parse(strings.TrimSpace(line))
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			tags := map[string]bool{}
			expr.Eval(func(tag string) bool { tags[tag] = true; return true })
			expr.Eval(func(tag string) bool { tags[tag] = true; return false })
			for tag := range tags {
				if !slices.Contains(testTags, tag) {
					t.Errorf("%s: no target of the Makefile runs tests with the tag %q", path, tag)
				}
			}
			// The target norace knows packages by these.
			if tags["race"] && !strings.Contains(text, "raceEnabled") && !strings.Contains(text, "internal/racetest") && !strings.Contains(line, "go:build !race") {
				t.Errorf("%s: the constant that tells of the race detector is called raceEnabled", path)
			}
		}
	})
}

// TestServedTestsAreFound holds that the target norace finds what is left out in the packages
// of which it does not run all: a test says so itself, and not for others.
func TestServedTestsAreFound(t *testing.T) {
	inTest := regexp.MustCompile(`(?s)\nfunc Test[A-Z][^\n]*\{\n.*?\n\}\n`)
	for _, room := range []string{"store/redisstore", "tenant/sqltenant"} {
		files, err := filepath.Glob(filepath.FromSlash(room + "/*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no tests (%v)", room, err)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if left := inTest.ReplaceAllString(strings.ReplaceAll(string(text), "\n", "\n\n"), ""); strings.Contains(left, "racetest.") {
				t.Errorf("%s: racetest is asked outside of a test, and make norace does not see which", path)
			}
		}
	}
}

// TestNothingIsReplayed holds that property tests find what they find by what they draw:
// rapid tries the inputs first with which it has failed before.
func TestNothingIsReplayed(t *testing.T) {
	walk(t, func(path string) {
		if strings.Contains(filepath.ToSlash(path), "/testdata/rapid/") && strings.HasSuffix(path, ".fail") {
			t.Errorf("%s is left over from a run that failed; hint: remove it, and set RAPID_NOFAILFILE=true", path)
		}
	})
}

// eachTestFile calls f with the files of tests of this module.
func eachTestFile(t *testing.T, f func(path, text string)) {
	t.Helper()
	walk(t, func(path string) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f(path, string(text))
	})
}

// walk calls f with the files of this repository but for those of the benchmarks, a module
// of their own.
func walk(t *testing.T, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && os.IsNotExist(err):
			return nil // of a test that runs beside this one
		case err != nil:
			return err
		case entry.IsDir() && (path == "bench" || path == ".git" || path == ".tools" || path == "bin"):
			return filepath.SkipDir
		case !entry.IsDir():
			f(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
