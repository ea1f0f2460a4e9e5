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
	doors, gates := 0, 0
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
			if call, ok := e.(*ast.CallExpr); ok && (text(call.Fun) == "p.doors.open" || text(call.Fun) == "p.doors.openRaw") {
				doors++
			} else {
				t.Errorf("%s: a front asks %s; hint: p.doors.open", set.Position(e.Pos()), text(e))
			}
		}
		admit := func(e ast.Expr) {
			if call, ok := e.(*ast.CallExpr); ok && (text(call.Fun) == "overHTTP" || text(call.Fun) == "overJSON" || text(call.Fun) == "rls.Callers") {
				gates++
			} else {
				t.Errorf("%s: callers come in by %s; hint: p.gate", set.Position(e.Pos()), text(e))
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				switch text(n.Key) {
				case "Checker":
					check(n.Value)
				case "Admit", "AdmitReserver":
					admit(n.Value)
				}
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					if strings.HasSuffix(text(to), ".Checker") {
						check(n.Rhs[i])
					}
				}
			case *ast.CallExpr:
				switch text(n.Fun) {
				case "httplimit.New", "grpclimit.New":
					check(n.Args[0])
				case "rls.NewJSONHandler":
					admit(n.Args[1])
				}
			}
			return true
		})
	}
	if doors < 4 || gates < 3 {
		t.Errorf("%d doors found, want at least http, grpc, auth and proxy; %d gates, want at least http, json and grpc", doors, gates)
	}
}

// TestFrontsTakeTurns: every front that decides is given the places of this process.
func TestFrontsTakeTurns(t *testing.T) {
	want := map[string]bool{"rls.Options": false, "httpcheck.Options": false, "respfront.Options": false, "forwardauth.Options": false}
	for _, name := range []string{"app.go", "auth.go", "redis.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			options, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			for _, e := range options.Elts {
				if e, ok := e.(*ast.KeyValueExpr); ok && text(e.Key) == "Turns" && text(e.Value) == "p.doors.turns" {
					want[text(options.Type)] = true
				}
			}
			return true
		})
	}
	for options, has := range want {
		if !has {
			t.Errorf("%s has no p.doors.turns; hint: requests of that front wait for the store without bound", options)
		}
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
