package rulefile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules"
)

// The files of testdata say what is expected of them, in comments:
//
//	# request DOMAIN DESCRIPTOR => RULE ...   the rules that apply, or none, or unknown domain
//	# warning: TEXT                           one for each warning, in any order
//	# error: TEXT                             one for each error, in any order
//
// Files of testdata/envoy are read in both modes and mean the same in both.
func corpus(t *testing.T, dir string) map[string]File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", dir, "*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	files := make(map[string]File)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(name), ".yaml")] = File{Name: filepath.Base(name), Data: data}
	}
	return files
}

// comments returns what follows prefix in the comments of a file.
func comments(f File, prefix string) []string {
	var found []string
	for line := range strings.Lines(string(f.Data)) {
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "# "+prefix+" "); ok {
			found = append(found, rest)
		}
	}
	return found
}

var modes = map[string]Options{"plain": {}, "compat": {Compat: true}}

func TestEnvoyFilesAreAccepted(t *testing.T) {
	for name, file := range corpus(t, "envoy/accepted") {
		for mode, options := range modes {
			t.Run(name+"/"+mode, func(t *testing.T) { checkAccepted(t, file, options) })
		}
	}
}

func TestHeadgateFilesAreAccepted(t *testing.T) {
	for name, file := range corpus(t, "headgate/accepted") {
		t.Run(name, func(t *testing.T) { checkAccepted(t, file, Options{}) })
	}
}

func TestEnvoyFilesAreRefused(t *testing.T) {
	for name, file := range corpus(t, "envoy/refused") {
		for mode, options := range modes {
			t.Run(name+"/"+mode, func(t *testing.T) { checkRefused(t, file, options) })
		}
	}
}

func TestHeadgateFilesAreRefused(t *testing.T) {
	for name, file := range corpus(t, "headgate/refused") {
		t.Run(name, func(t *testing.T) { checkRefused(t, file, Options{}) })
	}
}

func checkAccepted(t *testing.T, file File, o Options) {
	set, err := Load([]File{file}, o)
	if err != nil {
		t.Fatal(err)
	}
	checkDiagnostics(t, set.Warnings(), comments(file, "warning:"))
	requests := comments(file, "request")
	if len(requests) == 0 {
		t.Error("the file expects nothing")
	}
	for _, line := range requests {
		request, want, _ := strings.Cut(line, " => ")
		domain, text, _ := strings.Cut(request, " ")
		if got := matchText(t, set, domain, text); got != want {
			t.Errorf("request %s: got %s, want %s", request, got, want)
		}
	}
}

// matchText returns the rules that apply to a descriptor as text.
func matchText(t *testing.T, set *rules.Set, domain, text string) string {
	t.Helper()
	entries, err := descriptor.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	d := set.Domain(domain)
	if d == nil {
		return "unknown domain"
	}
	var ids []string
	for _, m := range d.AppendMatches(nil, entries, time.Now) {
		ids = append(ids, m.Rule.ID)
	}
	if len(ids) == 0 {
		return "none"
	}
	return strings.Join(ids, " ")
}

func checkRefused(t *testing.T, file File, o Options) {
	set, err := Load([]File{file}, o)
	var errs rules.Errors
	if !errors.As(err, &errs) {
		t.Fatalf("loaded %v, %v", set.Rules(), err)
	}
	want := comments(file, "error:")
	if len(want) == 0 {
		t.Error("the file expects nothing")
	}
	checkDiagnostics(t, errs, want)
	for _, d := range errs {
		if d.File != file.Name || d.Line < 1 || d.Column < 1 || d.Hint == "" || d.Severity != rules.SeverityError {
			t.Errorf("incomplete: %+v", d)
		}
	}
}

// checkDiagnostics expects one diagnostic for each text, in any order.
func checkDiagnostics(t *testing.T, got []rules.Diagnostic, want []string) {
	t.Helper()
	got = slices.Clone(got)
	for _, text := range want {
		i := slices.IndexFunc(got, func(d rules.Diagnostic) bool { return strings.Contains(d.String(), text) })
		if i < 0 {
			t.Errorf("nothing says %q", text)
			continue
		}
		got = slices.Delete(got, i, i+1)
	}
	for _, d := range got {
		t.Errorf("not expected: %v", d)
	}
}
