package app

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// TestFrontsAskThroughDoors: no front gets the limiter itself, which asks nobody for a
// right. A new one that does fails here.
func TestFrontsAskThroughDoors(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	doors := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		check := func(e ast.Expr) {
			if call, ok := e.(*ast.CallExpr); ok && strings.HasSuffix(text(call.Fun), "doors.open") {
				doors++
			} else {
				t.Errorf("%s: a front asks %s; hint: p.doors.open", set.Position(e.Pos()), text(e))
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if text(n.Key) == "Checker" {
					check(n.Value)
				}
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					if strings.HasSuffix(text(to), ".Checker") {
						check(n.Rhs[i])
					}
				}
			case *ast.CallExpr:
				if f := text(n.Fun); f == "httplimit.New" || f == "grpclimit.New" {
					check(n.Args[0])
				}
			}
			return true
		})
	}
	if doors < 5 {
		t.Errorf("%d doors found, want at least http, json, grpc, auth and proxy", doors)
	}
}

// text is a name with its selectors, "" for any other expression.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return text(e.X) + "." + e.Sel.Name
	}
	return ""
}
