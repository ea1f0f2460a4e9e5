package headgate_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// exported is the list of names that this package shows to those who import it: what is
// added to it is promised, so that it has to be seen to be added.
const exported = "testdata/exported.txt"

// mostExported bounds the names of the package itself, methods not counted: whoever reads
// its documentation has to find the few that matter.
const mostExported = 40

// rootDoc returns the documentation of this package.
func rootDoc(t *testing.T) *doc.Package {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range glob(t, "*.go") {
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(fset, files, module)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestGuardExportedNames holds the exported names of this package against the golden
// list; `go test . -run TestGuardExportedNames -update` writes it.
func TestGuardExportedNames(t *testing.T) {
	p := rootDoc(t)
	var names, methods []string
	values := func(kind string, list []*doc.Value) {
		for _, v := range list {
			for _, name := range v.Names {
				if token.IsExported(name) {
					names = append(names, kind+" "+name)
				}
			}
		}
	}
	functions := func(list []*doc.Func) {
		for _, f := range list {
			names = append(names, "func "+f.Name)
		}
	}
	values("const", p.Consts)
	values("var", p.Vars)
	functions(p.Funcs)
	for _, typ := range p.Types {
		names = append(names, "type "+typ.Name)
		values("const", typ.Consts)
		values("var", typ.Vars)
		functions(typ.Funcs)
		for _, m := range typ.Methods {
			methods = append(methods, "method "+typ.Name+"."+m.Name)
		}
	}
	if len(names) >= mostExported {
		t.Errorf("%d exported names, want fewer than %d; hint: give what serves one caller a room of its own", len(names), mostExported)
	}
	slices.Sort(names)
	slices.Sort(methods)
	got := strings.Join(slices.Concat(names, methods), "\n") + "\n"
	if *update {
		if err := os.WriteFile(exported, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got != read(t, exported) {
		t.Errorf("the exported names are not those of %s; hint: go test . -run TestGuardExportedNames -update, and look at what is new:\n%s", exported, got)
	}
}

// TestGuardExportedComments holds that all that is exported says what it is.
func TestGuardExportedComments(t *testing.T) {
	p := rootDoc(t)
	check := func(name, text string) {
		if strings.TrimSpace(text) == "" {
			t.Errorf("%s has no comment", name)
		}
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			for _, spec := range v.Decl.Specs {
				one := spec.(*ast.ValueSpec)
				check(one.Names[0].Name, v.Doc+one.Doc.Text()+one.Comment.Text())
			}
		}
	}
	functions := func(in string, list []*doc.Func) {
		for _, f := range list {
			check(in+f.Name, f.Doc)
		}
	}
	values(p.Consts)
	values(p.Vars)
	functions("", p.Funcs)
	for _, typ := range p.Types {
		check(typ.Name, typ.Doc)
		values(typ.Consts)
		values(typ.Vars)
		functions("", typ.Funcs)
		functions(typ.Name+".", typ.Methods)
	}
}
