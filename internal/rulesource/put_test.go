package rulesource

import (
	"errors"
	"strings"
	"testing"

	"github.com/headgate/headgate/rules/rulefile"
)

func one(text string) []rulefile.File {
	return []rulefile.File{{Name: "https://rules.internal/r.yaml", Data: []byte(text)}}
}

// TestReadElsewhere: what is read elsewhere is in force as files of this machine are, all or
// none; what is wrong with it, or that it cannot be read, changes nothing and is told once.
func TestReadElsewhere(t *testing.T) {
	s, r := newSource(t, Options{Fed: true, StateDir: t.TempDir()})
	if err := s.LoadFrom(one(ruleText("a", 5)), nil); err != nil {
		t.Fatal(err)
	}
	expectRules(t, r, 5)
	away := errors.New("read rules: https://rules.internal/r.yaml: gone")
	s.Unread(away)
	s.Unread(away)
	if s.Status().Err == nil {
		t.Error("nobody sees that it cannot be read")
	}
	for _, step := range []struct {
		text    string
		changed bool
		err     string
	}{
		{ruleText("a", 5), false, ""}, // it is again what is in force
		{"domain: [", false, "r.yaml"},
		{"domain: [", false, "r.yaml"}, // told once
		{ruleText("a", 2), false, "the files drop 3 of the 5 rules in force"},
		{ruleText("a", 6), true, ""},
	} {
		changed, err := s.PutGuarded(one(step.text))
		if changed != step.changed || (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("%.20q: changed %t, %v", step.text, changed, err)
		}
	}
	expectRules(t, r, 6)
	expectKinds(t, r, "loaded, refused, unchanged, refused, refused, loaded")
	if s.Status().Err != nil {
		t.Error(s.Status().Err)
	}
}

// TestReadElsewhereAtStart: a start for which nothing can be read goes by the last good rules, and
// without them is none.
func TestReadElsewhereAtStart(t *testing.T) {
	o := Options{Fed: true, StateDir: t.TempDir()}
	away := errors.New("read rules: https://rules.internal/r.yaml: gone")
	s, _ := newSource(t, o)
	if err := s.LoadFrom(nil, away); !errors.Is(err, away) || !strings.Contains(err.Error(), "no last good rules") {
		t.Errorf("nothing was kept: %v", err)
	}
	if err := s.LoadFrom(one("domain: ["), nil); err == nil {
		t.Error("bad rules are a start")
	}
	if err := s.LoadFrom(one(ruleText("a", 2)), nil); err != nil {
		t.Fatal(err)
	}
	s, r := newSource(t, o)
	if err := s.LoadFrom(nil, away); err != nil {
		t.Fatal(err)
	}
	expectRules(t, r, 2)
	if st := s.Status(); !st.LastGood || !errors.Is(st.Err, away) {
		t.Errorf("status %+v", st)
	}
	s.Unread(away)
	expectKinds(t, r, "last good") // the same trouble is not told again
	if _, err := s.PutGuarded(one(ruleText("a", 2))); err != nil || s.Status().LastGood {
		t.Errorf("status %+v, %v", s.Status(), err)
	}
	expectKinds(t, r, "last good, unchanged")
}

// TestAwaited: without first rules nobody gets an answer until some come, if only none; files that
// were bad at the start count as soon as they are good.
func TestAwaited(t *testing.T) {
	fed, r := newSource(t, Options{Fed: true})
	if err := fed.Load(); err != nil {
		t.Fatal(err)
	}
	if !fed.Awaited() {
		t.Error("nobody has said what there is, and it is not awaited")
	}
	if _, err := fed.Put(nil); err != nil || fed.Awaited() {
		t.Errorf("there are none: awaited %t, %v", fed.Awaited(), err)
	}
	expectRules(t, r, 0)

	path := t.TempDir() + "/rules.yaml"
	write(t, path, "domain: [")
	s, r := newSource(t, Options{Path: path})
	err := s.Load()
	if err == nil {
		t.Fatal("bad files are a start")
	}
	if err := s.Await(err); err != nil {
		t.Fatal(err)
	}
	expectRules(t, r, 0)
	s.check(false)
	expectKinds(t, r, "refused") // told once
	if st := s.Status(); !st.Awaited || st.Err == nil || st.Rules != 0 {
		t.Errorf("status %+v", st)
	}
	write(t, path, ruleText("a", 3))
	s.check(false)
	expectRules(t, r, 3)
	if st := s.Status(); st.Awaited || st.Err != nil || st.Rules != 3 {
		t.Errorf("status %+v", st)
	}
}
