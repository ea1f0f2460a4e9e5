package yamlfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v4"
)

type written struct {
	Name string      `yaml:"name"`
	List []yaml.Node `yaml:"list"`
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"name: a":          "",
		"":                 "empty",
		"# nothing":        "empty",
		"name: a\nnome: b": `line 2: unknown key "nome"; hint: did you mean "name"?`,
		"size: 1":          "line 1: unknown key; hint: there is name, list",
		"name: a\nname: b": `line 2: the key "name" is there twice; hint: the first one is on line 1`,
		"name: [":          "line 2: did not find expected node content",
		"name: a\n---\n":   "line 2: more than one document; hint: delete the line ---",
		"name: a\nlist: 1": "line 2: list: a whole number is not a list",
	} {
		got := ""
		if err := Parse([]byte(text), new(written)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestNodeAndAt(t *testing.T) {
	var s written
	if err := Parse([]byte("list:\n  - {name: a}\n  - {nome: b}\n"), &s); err != nil {
		t.Fatal(err)
	}
	var inner written
	if err := Node(&s.List[0], &inner); err != nil || inner.Name != "a" {
		t.Errorf("%+v, %v", inner, err)
	}
	err := In("f.yaml", Node(&s.List[1], &inner))
	if err == nil || err.Error() != `f.yaml:3:6: unknown key "nome"; hint: did you mean "name"?` {
		t.Errorf("%v", err)
	}
	cause := errors.New("cause")
	if err := In("f.yaml", At(&s.List[0], "x: %w", cause)); err.Error() != "f.yaml:2:5: x: cause" || !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	if err := In("f.yaml", cause); err.Error() != "f.yaml: cause" {
		t.Errorf("%v", err)
	}
	if err := In("f.yaml", nil); err != nil {
		t.Errorf("%v", err)
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(path, 5); string(data) != "12345" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := Read(path, 4); err == nil || err.Error() != path+": larger than 4 bytes; hint: is this the right file?" {
		t.Errorf("%v", err)
	}
	if _, err := Read(path+"x", 4); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
