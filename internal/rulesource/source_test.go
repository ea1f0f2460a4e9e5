package rulesource

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ruleText returns a rule file of a domain with n rules.
func ruleText(domain string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\ndescriptors:\n", domain)
	for i := range n {
		fmt.Fprintf(&b, "  - {key: k%d, rate_limit: {unit: minute, requests_per_unit: %d}}\n", i, i+1)
	}
	return b.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// recorder keeps what a Source did. Its Source calls it one at a time.
type recorder struct {
	applied []*rules.Set
	events  []Event
}

func (r *recorder) last() Event { return r.events[len(r.events)-1] }

func (r *recorder) kinds() string {
	var names []string
	for _, e := range r.events {
		names = append(names, [...]string{"loaded", "unchanged", "refused", "last good", "not kept", "not watched", "joined", "document refused"}[e.Kind])
	}
	return strings.Join(names, ", ")
}

func newSource(t *testing.T, o Options) (*Source, *recorder) {
	t.Helper()
	r := &recorder{}
	o.Apply = func(s *rules.Set) { r.applied = append(r.applied, s) }
	o.Report = func(e Event) { r.events = append(r.events, e) }
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, r
}

func loaded(t *testing.T, o Options) (*Source, *recorder) {
	t.Helper()
	s, r := newSource(t, o)
	if err := s.Load(); err != nil {
		t.Fatal(err)
	}
	return s, r
}

func expectRules(t *testing.T, r *recorder, n int) {
	t.Helper()
	if got := r.applied[len(r.applied)-1].NumRules(); got != n {
		t.Fatalf("%d rules in force, want %d; events: %s", got, n, r.kinds())
	}
}

func expectKinds(t *testing.T, r *recorder, want string) {
	t.Helper()
	if got := r.kinds(); got != want {
		t.Fatalf("events: %s; want %s", got, want)
	}
}

func TestReload(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", ruleText("a", 2))
	s, r := loaded(t, Options{Path: dir})
	expectRules(t, r, 2)

	s.check(false)
	expectKinds(t, r, "loaded") // nothing changed, nothing told

	write(t, dir+"/sub/b.yml", ruleText("b", 3))
	write(t, dir+"/README.md", "not a rule file")
	write(t, dir+"/.hidden.yaml", "not: [read")
	s.check(false)
	expectRules(t, r, 5)
	expectKinds(t, r, "loaded, loaded")
	if st := s.Status(); st.Err != nil || st.Version != r.last().Set.Version() {
		t.Errorf("status %+v", st)
	}
}

func TestBadReloadChangesNothing(t *testing.T) {
	whole := ruleText("a", 3)
	bad := map[string]string{
		"empty":      "",
		"not utf-8":  whole + "# \xff\n",
		"not yaml":   "domain: [a\n",
		"wrong unit": "domain: a\ndescriptors:\n  - {key: k, rate_limit: {unit: fortnight, requests_per_unit: 1}}\n",
		"alias bomb": aliasBomb(),
	}
	for name, text := range bad {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir() + "/rules.yaml"
			write(t, path, whole)
			s, r := loaded(t, Options{Path: path})
			write(t, path, text)
			s.check(false)
			s.check(false)
			expectKinds(t, r, "loaded, refused") // told once
			expectRules(t, r, 3)
			if err := r.last().Err; !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "hint:") {
				t.Errorf("error without place or hint: %v", err)
			}
			if s.Status().Err == nil {
				t.Error("the status does not say that the files are refused")
			}
			write(t, path, whole)
			s.check(false)
			expectKinds(t, r, "loaded, refused, unchanged")
			if s.Status().Err != nil {
				t.Error("the status says still that the files are refused")
			}
		})
	}
}

func aliasBomb() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 10; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	return text
}

// TestTruncatedAnywhere cuts a file at every byte: whatever is in force then is
// what was in force before, or what the cut file says by itself.
func TestTruncatedAnywhere(t *testing.T) {
	path := t.TempDir() + "/rules.yaml"
	whole := ruleText("a", 3)
	for n := range len(whole) {
		write(t, path, whole)
		s, r := loaded(t, Options{Path: path})
		write(t, path, whole[:n])
		s.check(false)
		cut, err := rulefile.Load([]rulefile.File{{Name: path, Data: []byte(whole[:n])}}, rulefile.Options{})
		inForce := r.applied[len(r.applied)-1]
		switch {
		case err != nil && (len(r.applied) != 1 || r.last().Kind != Refused):
			t.Fatalf("cut at %d: a bad file was not refused: %s", n, r.kinds())
		case err == nil && cut.NumRules() == 0 && len(r.applied) != 1:
			t.Fatalf("cut at %d: a file without rules is in force", n)
		case err == nil && len(r.applied) == 2 && inForce.Version() != cut.Version():
			t.Fatalf("cut at %d: other rules in force than those of the file", n)
		}
	}
}

func TestRefusedFilesAreToldAgainOnDemand(t *testing.T) {
	path := t.TempDir() + "/rules.yaml"
	write(t, path, ruleText("a", 1))
	s, r := loaded(t, Options{Path: path})
	write(t, path, "domain: [")
	s.check(false)
	s.check(true)
	expectKinds(t, r, "loaded, refused, refused")
}

func TestVanishedDirectory(t *testing.T) {
	dir := t.TempDir() + "/rules"
	write(t, dir+"/a.yaml", ruleText("a", 4))
	s, r := loaded(t, Options{Path: dir})
	if err := os.Rename(dir, dir+".gone"); err != nil {
		t.Fatal(err)
	}
	s.check(false)
	s.check(false)
	expectKinds(t, r, "loaded, refused")
	if err := r.last().Err; !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.check(false) // there, but empty
	expectRules(t, r, 4)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+".gone", dir); err != nil {
		t.Fatal(err)
	}
	s.check(false)
	if r.last().Kind != Unchanged {
		t.Errorf("events: %s", r.kinds())
	}
}

func TestGuard(t *testing.T) {
	for _, tt := range []struct {
		before, after int
		allow, want   bool
	}{
		{before: 4, after: 2, want: true},
		{before: 4, after: 1, want: false},
		{before: 4, after: 1, allow: true, want: true},
		{before: 3, after: 1, want: true},
		{before: 10, after: 5, want: true},
		{before: 10, after: 4, want: false},
		{before: 1, after: 9, want: true},
	} {
		t.Run(fmt.Sprintf("%d to %d", tt.before, tt.after), func(t *testing.T) {
			path := t.TempDir() + "/rules.yaml"
			write(t, path, ruleText("a", tt.before))
			s, r := loaded(t, Options{Path: path, AllowDrop: tt.allow})
			write(t, path, ruleText("a", tt.after))
			s.check(false)
			if got := r.last().Kind == Loaded; got != tt.want {
				t.Errorf("loaded %v, want %v: %v", got, tt.want, r.last().Err)
			}
		})
	}
}

func TestGuardCountsRulesByIdentity(t *testing.T) {
	path := t.TempDir() + "/rules.yaml"
	write(t, path, ruleText("a", 6))
	s, r := loaded(t, Options{Path: path})
	write(t, path, ruleText("other", 6))
	s.check(false)
	if err := r.last().Err; err == nil || !strings.Contains(err.Error(), "drop 6 of the 6 rules") || !strings.Contains(err.Error(), "--allow-rule-drop") {
		t.Errorf("another set of rules was not refused: %v", err)
	}
}

func TestGuardRefusesToDropAll(t *testing.T) {
	path := t.TempDir() + "/rules.yaml"
	write(t, path, ruleText("a", 1))
	s, r := loaded(t, Options{Path: path})
	write(t, path, "domain: a\n")
	s.check(false)
	expectRules(t, r, 1)
}

func TestLastGoodAtStart(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()+"/state"
	path := dir + "/rules.yaml"
	write(t, path, ruleText("a", 2))
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	o := Options{Path: path, StateDir: state, Now: func() time.Time { return now }}
	s, _ := loaded(t, o)
	write(t, path, ruleText("a", 5))
	s.check(false)

	write(t, path, "domain: [")
	s, r := loaded(t, o)
	expectRules(t, r, 5)
	expectKinds(t, r, "last good")
	if err := r.last().Err; !strings.Contains(err.Error(), "the rules of 2026-11-20T12:00:00Z are in force") || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	if st := s.Status(); !st.LastGood || st.Err == nil {
		t.Errorf("status %+v", st)
	}
	s.check(false)
	expectKinds(t, r, "last good") // the same bad files are not told twice

	write(t, path, ruleText("a", 6))
	s.check(false)
	expectRules(t, r, 6)
	if st := s.Status(); st.LastGood || st.Err != nil {
		t.Errorf("status after good files: %+v", st)
	}
}

func TestFilesThatAreTheLastGoodOnes(t *testing.T) {
	path, state := t.TempDir()+"/rules.yaml", t.TempDir()
	write(t, path, ruleText("a", 2))
	o := Options{Path: path, StateDir: state}
	loaded(t, o)
	write(t, path, "domain: [")
	s, r := loaded(t, o)
	write(t, path, ruleText("a", 2))
	s.check(false)
	expectKinds(t, r, "last good, unchanged")
	if s.Status().LastGood {
		t.Error("still on the last good rules")
	}
}

func TestBadAtStartWithoutLastGood(t *testing.T) {
	path := t.TempDir() + "/rules.yaml"
	write(t, path, "domain: [")
	state := t.TempDir()
	s, r := newSource(t, Options{Path: path, StateDir: state})
	if err := s.Load(); err == nil || len(r.applied) != 0 {
		t.Fatalf("error %v, applied %d", err, len(r.applied))
	}
	write(t, state+"/"+lastGoodName, `{"hash":"0000","files":[{"name":"x","data":"ZG9tYWluOiB4"}]}`)
	if err := s.Load(); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged last good rules: %v", err)
	}
	write(t, state+"/"+lastGoodName, `{"hash":`)
	if err := s.Load(); err == nil || len(r.applied) != 0 {
		t.Errorf("truncated last good rules: %v", err)
	}
}

func TestStateDirectoryThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", ruleText("a", 1))
	write(t, dir+"/file", "")
	_, r := loaded(t, Options{Path: dir + "/a.yaml", StateDir: dir + "/file/state"})
	expectKinds(t, r, "loaded, not kept")
}

func TestLastGoodIsReplacedWhole(t *testing.T) {
	dir := t.TempDir()
	for n := range 20 {
		s := snapshot{files: []rulefile.File{{Name: "a", Data: []byte(strings.Repeat("x", 1000*n))}}}
		s.hash = hashOf(s.files)
		if err := saveLastGood(dir, s, time.Now()); err != nil {
			t.Fatal(err)
		}
		got, _, err := loadLastGood(dir)
		if err != nil || got.hash != s.hash {
			t.Fatalf("%v", err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}
