package chart

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"sigs.k8s.io/yaml"
)

const terraformDir = "../../deploy/terraform"

// module is the module of Terraform: its blocks of all files, by type.
type module map[string][]*hclsyntax.Block

func readModule(t *testing.T) module {
	t.Helper()
	files, err := filepath.Glob(terraformDir + "/*.tf")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	m, parser := module{}, hclparse.NewParser()
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(hclwrite.Format(text)) != string(text) {
			t.Errorf("%s: its format is not that of terraform fmt", path)
		}
		f, bad := parser.ParseHCL(text, path)
		if bad.HasErrors() {
			t.Fatal(bad)
		}
		for _, block := range f.Body.(*hclsyntax.Body).Blocks {
			m[block.Type] = append(m[block.Type], block)
		}
	}
	return m
}

// variables returns the values of all variables: those that are given, and the defaults.
func (m module) variables(t *testing.T, given map[string]cty.Value) cty.Value {
	t.Helper()
	all := map[string]cty.Value{}
	for _, block := range m["variable"] {
		name := block.Labels[0]
		if d, ok := block.Body.Attributes["default"]; ok {
			v, bad := d.Expr.Value(nil)
			if bad.HasErrors() {
				t.Fatal(bad)
			}
			all[name] = v
		}
	}
	all["pods"] = cty.ObjectVal(map[string]cty.Value{"least": cty.NumberIntVal(2), "most": cty.NumberIntVal(2)}) // the defaults of its type
	for name, v := range given {
		if all[name] == cty.NilVal && name != "namespace" && name != "chart" {
			t.Errorf("no variable %s", name)
		}
		all[name] = v
	}
	return cty.ObjectVal(all)
}

// scope is what expressions of the module may name where variables have these values.
func (m module) scope(t *testing.T, given map[string]cty.Value) *hcl.EvalContext {
	t.Helper()
	same := function.New(&function.Spec{
		Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType}},
		Type:   func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
		Impl:   func(args []cty.Value, _ cty.Type) (cty.Value, error) { return args[0], nil },
	})
	contains := function.New(&function.Spec{
		Params: []function.Parameter{{Name: "text", Type: cty.String}, {Name: "part", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(strings.Contains(args[0].AsString(), args[1].AsString())), nil
		},
	})
	locals := map[string]cty.Value{}
	at := &hcl.EvalContext{
		Variables: map[string]cty.Value{"var": m.variables(t, given)},
		Functions: map[string]function.Function{"nonsensitive": same, "strcontains": contains},
	}
	defined := m["locals"][0].Body.Attributes
	for _, a := range slices.SortedFunc(maps.Values(defined), func(a, b *hclsyntax.Attribute) int { return a.SrcRange.Start.Byte - b.SrcRange.Start.Byte }) {
		if len(locals) > 0 {
			at.Variables["local"] = cty.ObjectVal(locals)
		}
		v, bad := a.Expr.Value(at)
		if bad.HasErrors() {
			t.Fatal(bad)
		}
		locals[a.Name] = v
	}
	at.Variables["local"] = cty.ObjectVal(locals)
	return at
}

// plan returns the values of the chart, and the messages of preconditions that do not hold.
func (m module) plan(t *testing.T, given map[string]cty.Value) (values map[string]any, refused []string) {
	t.Helper()
	at := m.scope(t, given)
	made := at.Variables["local"].GetAttr("values")
	text, err := ctyjson.Marshal(made, made.Type())
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	for _, resource := range m["resource"] {
		for _, inner := range resource.Body.Blocks {
			for _, check := range inner.Body.Blocks {
				holds, bad := check.Body.Attributes["condition"].Expr.Value(at)
				says, alsoBad := check.Body.Attributes["error_message"].Expr.Value(at)
				if bad.HasErrors() || alsoBad.HasErrors() {
					t.Fatal(bad, alsoBad)
				}
				if holds.False() {
					refused = append(refused, says.AsString())
				}
			}
		}
	}
	return values, refused
}

// The chart takes what the module makes of its variables, and it becomes what was asked for.
func TestTerraformValues(t *testing.T) {
	m := readModule(t)
	text := func(s string) cty.Value { return cty.StringVal(s) }
	pods := func(least, most int64) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{"least": cty.NumberIntVal(least), "most": cty.NumberIntVal(most)})
	}
	rules := cty.MapVal(map[string]cty.Value{"shop.yaml": text("domain: shop\n")})
	for name, c := range map[string]struct {
		given map[string]cty.Value
		has   []string
	}{
		"in memory":       {map[string]cty.Value{"pods": pods(1, 1), "rules": rules}, []string{"replicas: 1", "domain: shop"}},
		"a URL":           {map[string]cty.Value{"store_url": text("rediss://r")}, []string{"replicas: 2", "name: limits-headgate-store"}},
		"a secret":        {map[string]cty.Value{"store_secret": text("mine"), "pods": pods(2, 9)}, []string{"name: mine", "kind: HorizontalPodAutoscaler", "maxReplicas: 9"}},
		"tenants":         {map[string]cty.Value{"store_secret": text("mine"), "tenants_url": text("postgres://d"), "tiers": text("tiers: {}")}, []string{"name: limits-headgate-tenants", "tiers: {}"}},
		"another setting": {map[string]cty.Value{"store_secret": text("mine"), "settings": cty.MapVal(map[string]cty.Value{"rls-headers": text("envoy")})}, []string{"rls-headers"}},
	} {
		values, refused := m.plan(t, c.given)
		if len(refused) > 0 {
			t.Errorf("%s: refused: %q", name, refused)
		}
		objects, err := render(values)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var all strings.Builder
		for _, o := range objects {
			all.WriteString(o.text)
		}
		for _, want := range c.has {
			if !strings.Contains(all.String(), want) {
				t.Errorf("%s: the chart does not say %q", name, want)
			}
		}
		if strings.Contains(all.String(), "rediss://r") || strings.Contains(all.String(), "postgres://d") {
			t.Errorf("%s: a URL with its password stands outside of a secret", name)
		}
	}
	for _, c := range []struct {
		given map[string]cty.Value
		says  string
	}{
		{nil, "Several pods need a store"},
		{map[string]cty.Value{"store_url": text("a"), "store_secret": text("b")}, "store_url and store_secret"},
		{map[string]cty.Value{"store_url": text("a"), "tenants_url": text("a"), "tenants_secret": text("b")}, "tenants_url and tenants_secret"},
	} {
		if _, refused := m.plan(t, c.given); len(refused) != 1 || !strings.Contains(refused[0], c.says) {
			t.Errorf("refused by %q, want %q", refused, c.says)
		}
	}
}

// The addresses that the module tells are those of services that the chart makes, whatever the
// release is called.
func TestTerraformAddresses(t *testing.T) {
	m := readModule(t)
	for _, name := range []string{"limits", "headgate", "eu-headgate-1"} {
		given := map[string]cty.Value{"name": cty.StringVal(name), "namespace": cty.StringVal("shop"), "store_secret": cty.StringVal("mine")}
		values, _ := m.plan(t, given)
		objects, err := renderAs(name, values)
		if err != nil {
			t.Fatal(err)
		}
		services := map[string]bool{}
		for _, o := range objects {
			if o.kind() == "Service" {
				services[o.name()+".shop.svc"] = true
			}
		}
		for _, output := range m["output"] {
			v, bad := output.Body.Attributes["value"].Expr.Value(m.scope(t, given))
			if bad.HasErrors() {
				t.Fatal(bad)
			}
			host, _, _ := strings.Cut(strings.TrimPrefix(v.AsString(), "http://"), ":")
			if !services[host] {
				t.Errorf("%s of the release %s: the chart makes no service %s", output.Labels[0], name, host)
			}
		}
	}
}

// Each variable is used, and each that is used is declared, with a description; secrets are
// sensitive.
func TestTerraformVariables(t *testing.T) {
	m := readModule(t)
	used := map[string]bool{}
	for kind, blocks := range m {
		if kind == "variable" {
			continue
		}
		for _, block := range blocks {
			_ = hclsyntax.VisitAll(block.Body, func(n hclsyntax.Node) hcl.Diagnostics {
				if e, ok := n.(*hclsyntax.ScopeTraversalExpr); ok && e.Traversal.RootName() == "var" {
					used[e.Traversal[1].(hcl.TraverseAttr).Name] = true
				}
				return nil
			})
		}
	}
	for _, block := range m["variable"] {
		name := block.Labels[0]
		if !used[name] {
			t.Errorf("variable %s is not used", name)
		}
		delete(used, name)
		if block.Body.Attributes["description"] == nil || block.Body.Attributes["type"] == nil {
			t.Errorf("variable %s has no description or no type", name)
		}
		if strings.HasSuffix(name, "_url") && block.Body.Attributes["sensitive"] == nil {
			t.Errorf("variable %s may hold a password and is not sensitive", name)
		}
	}
	if len(used) > 0 {
		t.Errorf("not declared: %v", slices.Collect(maps.Keys(used)))
	}
}
