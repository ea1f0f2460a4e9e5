package httpcheck

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/openapi/openapitest"
)

// send posts a body to a path, and returns what is answered.
func send(t *testing.T, h http.Handler, path string, body any) *httptest.ResponseRecorder {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(string(text)))
	r.Header.Set("Content-Type", mediaJSON)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestBodiesOfTheDocument: what the document says can be sent is taken, on each path that it has;
// the same with a member that it does not have is refused, in whatever object that stands; and all answers
// are of the form that it says.
func TestBodiesOfTheDocument(t *testing.T) {
	d, h := openapitest.Load("openapi.json"), documented(t)
	reserved := send(t, h, "/v1/reserve", map[string]any{"domain": "api", "descriptors": []any{map[string]any{"descriptor": "many:r"}}})
	var made struct{ Reservation string }
	if err := json.Unmarshal(reserved.Body.Bytes(), &made); err != nil || made.Reservation == "" {
		t.Fatalf("%s %v", reserved.Body, err)
	}
	examples := map[string][]any{"reservation": {made.Reservation}, "client_ip": {"192.0.2.1", "2001:db8::1"}}
	for path := range openapitest.Dig(map[string]any(d), "paths").(map[string]any) {
		shape := d.Body(path, "post")
		if shape == nil {
			if openapitest.Dig(map[string]any(d), "paths", path, "get") == nil {
				t.Errorf("%s takes no JSON and is not read either", path)
			}
			continue
		}
		if path == "/v1/commit" {
			examples["hits"] = []any{0.0, []any{5.0}} // of the one descriptor
		} else {
			delete(examples, "hits")
		}
		bodies, strangers := d.Bodies(shape, examples), 0
		for _, body := range bodies {
			w := send(t, h, path, body)
			if w.Code == http.StatusBadRequest {
				t.Errorf("%s is refused though the document has it: %v: %s", path, body, w.Body)
			}
			conforms(t, d, path, w)
			for _, strange := range d.Strangers(body, shape) {
				strangers++
				if w := send(t, h, path, strange); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "stranger") {
					t.Errorf("%s takes %v: %d %s", path, strange, w.Code, w.Body)
				}
			}
		}
		if len(bodies) == 0 || strangers < len(bodies) {
			t.Errorf("%s: %d bodies, %d with a stranger", path, len(bodies), strangers)
		}
	}
}

// conforms holds an answer against the document.
func conforms(t *testing.T, d openapitest.Document, path string, w *httptest.ResponseRecorder) {
	t.Helper()
	shape := d.Answer(path, "post", w.Code, w.Header().Get("Content-Type"))
	if shape == nil {
		t.Errorf("%s: the document has no answer %d of %s: %s", path, w.Code, w.Header().Get("Content-Type"), w.Body)
		return
	}
	var answer any = w.Body.String()
	if strings.Contains(w.Header().Get("Content-Type"), "json") {
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
	}
	for _, problem := range d.Conforms(answer, shape, "the answer to "+path) {
		t.Errorf("%s\n%s", problem, w.Body)
	}
}

// TestAllPathsAreDocumented: the document has the paths that are served, and no others.
func TestAllPathsAreDocumented(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "handler.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	served := []string{documentPath}
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if method, ok := call.Fun.(*ast.SelectorExpr); ok && isNamed(method.X, "mux") {
			if path, ok := call.Args[0].(*ast.BasicLit); ok && path.Value != `"/"` { // that of all others
				at, _ := strconv.Unquote(path.Value)
				served = append(served, at)
			}
		}
		return true
	})
	slices.Sort(served)
	paths := openapitest.Dig(map[string]any(openapitest.Load("openapi.json")), "paths").(map[string]any)
	if has := slices.Sorted(maps.Keys(paths)); !slices.Equal(has, served) {
		t.Errorf("the document has %q, served are %q", has, served)
	}
}

// TestDecodersKnowNoMore: each member that a decoder asks for by its name is in the document, and each that the
// document has is asked for.
func TestDecodersKnowNoMore(t *testing.T) {
	d := openapitest.Load("openapi.json")
	known := map[string][]string{}
	for _, file := range []string{"decode.go", "plain.go", "reserve.go", "../explain/decode.go"} {
		asked(t, file, known)
	}
	for _, c := range []struct{ functions, schemas []string }{
		{[]string{"decode.go:decode", "decode.go:member"}, []string{"RuleCheck", "KeyCheck", "Batch", "RuleInFlight", "KeyInFlight", "InFlightBatch", "Reserve"}},
		{[]string{"decode.go:descriptor"}, []string{"Descriptor", "InFlightDescriptor", "Estimate"}},
		{[]string{"decode.go:entry"}, []string{"Entry"}},
		{[]string{"plain.go:decodePlain"}, []string{"PlainCheck"}},
		{[]string{"reserve.go:settlement"}, []string{"Commit", "Cancel"}},
		{[]string{"../explain/decode.go:Decode"}, []string{"ExplainBody"}},
		{[]string{"../explain/decode.go:decodeDescriptor"}, []string{"ExplainDescriptor"}},
		{[]string{"../explain/decode.go:decodeEntries"}, []string{"ExplainEntry"}},
	} {
		var reads []string
		for _, name := range c.functions {
			reads = append(reads, known[name]...)
		}
		var has []string
		for _, name := range c.schemas {
			properties, _ := openapitest.Dig(map[string]any(d), "components", "schemas", name, "properties").(map[string]any)
			has = append(has, slices.Collect(maps.Keys(properties))...)
		}
		slices.Sort(reads)
		slices.Sort(has)
		reads, has = slices.Compact(reads), slices.Compact(has)
		if len(has) == 0 || !slices.Equal(reads, has) {
			t.Errorf("%q ask for %q, of which the document has %q in %q", c.functions, reads, has, c.schemas)
		}
	}
}

// asked adds the members that the functions of a file ask for, under FILE:FUNCTION: the texts that a
// variable called name is compared with, and those that are given to the function object as
// the members of one.
func asked(t *testing.T, file string, members map[string][]string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, declared := range parsed.Decls {
		function, ok := declared.(*ast.FuncDecl)
		if !ok {
			continue
		}
		at := file + ":" + function.Name.Name
		add := func(all ...ast.Expr) {
			for _, one := range all {
				if text, ok := one.(*ast.BasicLit); ok && text.Kind == token.STRING {
					member, _ := strconv.Unquote(text.Value)
					members[at] = append(members[at], member)
				}
			}
		}
		ast.Inspect(function, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SwitchStmt:
				if isNamed(n.Tag, "name") {
					for _, clause := range n.Body.List {
						add(clause.(*ast.CaseClause).List...)
					}
				}
			case *ast.BinaryExpr:
				if isNamed(n.X, "name") {
					add(n.Y)
				}
			case *ast.CallExpr:
				if isNamed(n.Fun, "object") {
					add(n.Args[2:]...)
				}
			}
			return true
		})
	}
}

func isNamed(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}
