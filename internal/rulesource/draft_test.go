package rulesource

import (
	"errors"
	"strings"
	"testing"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

// A text is tried in the place of a file beside all others, and changes nothing.
func TestTryFile(t *testing.T) {
	const some = "domain: a\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: 1}}\n"
	source, err := New(Options{Fed: true, Apply: func(*rules.Set) {}})
	if err != nil {
		t.Fatal(err)
	}
	if err := source.Load(); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Put([]rulefile.File{{Name: "a.yaml", Data: []byte(some)}, {Name: "b.yaml", Data: []byte(strings.Replace(some, "domain: a", "domain: b", 1))}}); err != nil {
		t.Fatal(err)
	}
	version := source.Status().Version
	try := func(name, text string) (*rules.Set, error) {
		return source.TryFile(rulefile.File{Name: name, Data: []byte(text)})
	}
	set, err := try("a.yaml", some+"  - {key: more, rate_limit: {unit: day, requests_per_unit: 1}}\n")
	if err != nil || set.NumRules() != 3 {
		t.Errorf("%v", err)
	}
	var list rules.Errors
	if _, err := try("a.yaml", "domain: b\n"+strings.TrimPrefix(some, "domain: a\n")); err == nil {
		t.Error("the domain of another file is taken")
	}
	if _, err := try("a.yaml", strings.Replace(some, "day", "fortnight", 1)); !errors.As(err, &list) || list[0].Line != 3 {
		t.Errorf("%v", err)
	}
	if _, err := try("c.yaml", some); err == nil {
		t.Error("there is no such file")
	}
	if files := source.Files(); len(files) != 2 || string(files[0].Data) != some || source.Status().Version != version {
		t.Errorf("it has changed: %+v", source.Status())
	}
	source.SetDocuments([]rulefile.File{{Name: "database:c", Data: []byte(strings.Replace(some, "domain: a", "domain: c", 1))}}, nil)
	if _, err := try("a.yaml", strings.Replace(some, "domain: a", "domain: c", 1)); err == nil || !strings.Contains(err.Error(), "beside it") && !strings.Contains(err.Error(), "drop") {
		t.Errorf("%v", err)
	}
}
