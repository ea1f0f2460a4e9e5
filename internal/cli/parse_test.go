package cli

import (
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/envoyenv"
)

// TestParseIsThatOfKong: a command line is taken and refused as the parser would by itself, in
// the same words.
func TestParseIsThatOfKong(t *testing.T) {
	t.Setenv("HEADGATE_LOG_FORMAT", "xml")
	for _, line := range []string{
		"", "rules", "store", "nonsense", "--nonsense", "version", "version more", "check --key k --limit 1 --window 1s",
		"drill shard-down", "drill store-down", "load", "load --addr http://h --domain d", "quota", "quota refund n", "quota refund n --hits x", "quota refund n --hits 1",
		"serve --log-format text", "serve", "serve --body xml --log-format text", "serve --drain-timeout 5 --log-format text", "serve --http-addr 8080 --log-format text",
		"proxy --log-format text", "proxy --to x --log-format text", "proxy --to http://h --log-format text", "ratelimit --log-format text --nodes=-1",
		"config sample x", "config sample proxy", "config check", "config check serve --x", "rules import bad f", "rules import kong", "rules import kong f", "rules explain r", "rules explain r a:b",
		"completion", "completion bash", "switch", "tier check", "tier check f g", "rules validate", "simulate --no-such", "recommend", "recommend --rules r --access-log a --out o --write", "recommend --rules r --access-log a --out o",
	} {
		args := strings.Fields(line)
		text := func(by func(*kong.Kong) error) (text string) {
			parser, err := kong.New(&root{}, kong.Name("headgate"), kong.Writers(io.Discard, io.Discard), kong.DefaultEnvars(config.EnvPrefix),
				kong.Resolvers(&config.File{}), kong.Bind(&stdio{}, envoyenv.Environment{}), kong.ExplicitGroups(groups))
			if err != nil {
				t.Fatal(err)
			}
			if err := by(parser); err != nil {
				return err.Error()
			}
			return "taken"
		}
		want := text(func(k *kong.Kong) error { _, err := k.Parse(args); return err })
		if got := text(func(k *kong.Kong) error { _, err := parse(k, args); return err }); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}

// TestCommandsHaveWhatIsLookedFor: each command can be run, and none has a method that kong would
// find by its name, and that parse does not.
func TestCommandsHaveWhatIsLookedFor(t *testing.T) {
	parser, err := newParser(&stdio{}, envoyenv.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(false) {
		if runOf(leaf, nil, nil, envoyenv.Environment{}) == nil {
			t.Errorf("%s cannot be run", leaf.Path())
		}
	}
	hooks := []string{"BeforeReset", "BeforeResolve", "BeforeApply", "AfterApply", "AfterRun"}
	asked := map[reflect.Type]bool{
		reflect.TypeFor[*serveCmd](): true, reflect.TypeFor[*ratelimitCmd](): true, reflect.TypeFor[*proxyCmd](): true,
	}
	check := func(path string, target reflect.Value) {
		t.Helper()
		if !target.IsValid() || !target.CanAddr() {
			return
		}
		of := target.Addr().Type()
		for i := range of.NumMethod() {
			name := of.Method(i).Name
			if slices.Contains(hooks, name) || strings.HasPrefix(name, "Provide") || name == "Validate" && !asked[of] {
				t.Errorf("%s: nobody calls %s of %s", path, name, of)
			}
		}
		if target.Kind() == reflect.Struct && !asked[of] {
			for i := range target.NumField() {
				if field := target.Field(i); target.Type().Field(i).Anonymous && field.CanAddr() {
					if _, has := field.Addr().Type().MethodByName("Validate"); has {
						t.Errorf("%s: nobody calls Validate of %s", path, field.Type())
					}
				}
			}
		}
	}
	if err := kong.Visit(parser.Model, func(v kong.Visitable, next kong.Next) error {
		switch v := v.(type) {
		case *kong.Node:
			check(v.Path(), v.Target)
		case *kong.Flag:
			if v != parser.Model.HelpFlag {
				check("--"+v.Name, v.Target)
			}
			if len(v.And) > 0 || len(v.Xor) > 0 && v.Required {
				t.Errorf("--%s: nobody looks whether another flag is there too", v.Name)
			}
		}
		return next(nil)
	}); err != nil {
		t.Fatal(err)
	}
}
