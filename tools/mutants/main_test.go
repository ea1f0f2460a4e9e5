package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// TestPlantedFit: each bug changes the tree of today, and its test is there.
func TestPlantedFit(t *testing.T) {
	const root = "../.."
	bugs, err := load(os.DirFS("planted"))
	if err != nil {
		t.Fatal(err)
	}
	if len(bugs) < 100 {
		t.Errorf("%d bugs, want at least 100", len(bugs))
	}
	tests := map[string]string{}
	for i := range bugs {
		b := &bugs[i]
		if _, err := b.changed(root); err != nil {
			t.Errorf("%s: %s: %v", b.area, b.What, err)
		}
		if tests[b.In] == "" {
			tests[b.In] = testsIn(t, root+"/"+b.In)
		}
		for name := range strings.SplitSeq(b.Test, "|") {
			if name != "" && !strings.Contains(tests[b.In], "func "+name+"(") {
				t.Errorf("%s: %s: %s has no %s", b.area, b.What, b.In, name)
			}
		}
	}
}

// testsIn returns the text of all test files in dir.
func testsIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "_test.go") {
			text, err := os.ReadFile(dir + "/" + e.Name())
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	return all.String()
}

func TestLoadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"- {what: w, file: f, old: a, new: b}":                             "either the test",
		"- {what: w, file: f, old: a, new: b, test: T, survives: because}": "either the test",
		"- {what: w, file: f, old: a, new: a, test: T}":                    "the same",
		"- {what: w, old: a, new: b, test: T}":                             "is missing",
		"- {what: w, file: f, old: a, new: b, tests: T}":                   "tests",
	} {
		if _, err := load(fstest.MapFS{"a.yaml": {Data: []byte(text)}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestPlant: a bug that a test sees, one that none sees, and those that are none.
func TestPlant(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module m\n\ngo 1.26\n",
		"m.go":      "package m\n\nfunc Less(a, b int) bool { return a < b } // 1 < 2\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestLess(t *testing.T) {\n\tif Less(2, 1) {\n\t\tt.Error(\"2 < 1\")\n\t}\n}\n",
	} {
		if err := os.WriteFile(root+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		old, new, test, word string
		all                  bool
		about                string
	}{
		{"a < b", "a > b", "TestLess", killed, false, ""},
		{"a < b", "a > b", "TestLess", killed, true, "TestLess"},
		{"a < b", "a <= b", "TestLess", survived, false, ""},
		{"a < b", "a < c", "TestLess", unfit, false, "undefined: c"},
		{"<", ">", "TestLess", unfit, false, "2 times"},
		{"a < b", "a > b", "TestMore", unfit, false, "no such test"},
	} {
		got := plant(t.Context(), root, &bug{File: "m.go", Old: test.old, New: test.new, Test: test.test, In: "."}, test.all)
		if got.word != test.word || !strings.Contains(got.about, test.about) {
			t.Errorf("%q for %q: %+v, want %s about %q", test.new, test.old, got, test.word, test.about)
		}
	}
	if text, err := os.ReadFile(root + "/m.go"); err != nil || !strings.Contains(string(text), "a < b }") {
		t.Errorf("the tree was changed: %s, %v", text, err)
	}
}

// TestPlantInAnotherModule: a tree may have modules of its own below it.
func TestPlantInAnotherModule(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module m\n\ngo 1.26\n",
		"low/go.mod":        "module low\n\ngo 1.26\n",
		"low/in/in.go":      "package in\n\nconst Two = 2\n",
		"low/in/in_test.go": "package in\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) {\n\tif Two != 2 {\n\t\tt.Error(Two)\n\t}\n}\n",
		"flat/flat.go":      "package flat\n\nconst One = 1\n",
		"flat/flat_test.go": "package flat\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tif One != 1 {\n\t\tt.Error(One)\n\t}\n}\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range []bug{
		{File: "low/in/in.go", In: "./low/in", Old: "= 2", New: "= 3", Test: "TestTwo"},
		{File: "flat/flat.go", In: "./flat", Old: "= 1", New: "= 2", Test: "TestOne"},
	} {
		if got := plant(t.Context(), root, &b, false); got.word != killed {
			t.Errorf("%s: %+v", b.File, got)
		}
	}
}

func TestJudge(t *testing.T) {
	if got := judge("", errors.New("no go"), false); got.word != unfit {
		t.Errorf("without a compiler: %+v", got)
	}
	if got := judge("panic: test timed out", &exec.ExitError{}, true); got.word != killed {
		t.Errorf("a test that does not end: %+v", got)
	}
}
