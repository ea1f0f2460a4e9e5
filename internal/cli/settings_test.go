package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/envoyenv"
	"github.com/headgate/headgate/internal/manual"
	"github.com/headgate/headgate/internal/view"
)

// shownTo returns the settings that operators would see of a process, by their names.
func shownTo(t *testing.T, args ...string) map[string]view.Setting {
	t.Helper()
	environment, err := environmentOf(args)
	if err != nil {
		t.Fatal(err)
	}
	parser, err := newParser(&stdio{}, environment)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parse(parser, args)
	if err != nil {
		t.Fatal(err)
	}
	settings := shownSettings(parsed, environment)
	if want := "headgate " + args[0]; settings.Command != want {
		t.Errorf("the command is %q, want %q", settings.Command, want)
	}
	text, err := json.Marshal(settings)
	if err != nil || strings.Contains(string(text), "geheim") {
		t.Errorf("a password is shown, or %v: %s", err, text)
	}
	list := map[string]view.Setting{}
	for _, s := range settings.Settings {
		list[s.Name] = s
	}
	return list
}

func settingsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestShownSettings holds that operators see each setting with its value and where it comes
// from, and no password, whichever way it came.
func TestShownSettings(t *testing.T) {
	t.Setenv("HEADGATE_TENANTS", "postgres://u:geheim1@h/db?password=geheim2")
	t.Setenv("HEADGATE_LOG_LEVEL", "error")
	list := shownTo(t, "serve", "--config", settingsFile(t, "audit-kafka: kafka://u:geheim3@h:9092/events\nlog-level: warn\nstore-budget: 60s\n"),
		"--store", "redis://u:geheim4@h:6379/0?password=geheim5", "--http-addr", ":1", "--store-budget", "9s", "--rules-url", "https://h/rules.yaml?token=geheim6")
	for name, want := range map[string]view.Setting{
		"tenants":      {Value: "postgres://h/db", From: view.FromEnvironment, Variables: []string{"HEADGATE_TENANTS"}, Group: "Tenants"},
		"log-level":    {Value: "error", From: view.FromEnvironment, Variables: []string{"HEADGATE_LOG_LEVEL"}, Group: "Logs", Default: "info"},
		"audit-kafka":  {Value: "kafka://xxxxx@h:9092/events", From: view.FromFile, Group: "Events of decisions"},
		"store":        {Value: "redis://xxxxx@h:6379/0?password=xxxxx", From: view.FromCommandLine, Group: "Store", Default: "memory://"},
		"rules-url":    {Value: "https://h/rules.yaml", From: view.FromCommandLine, Group: "Rules"},
		"store-budget": {Value: "9s", From: view.FromCommandLine, Group: "Store", Default: "20ms"},
		"http-addr":    {Value: ":1", From: view.FromCommandLine, Group: "Addresses and shutdown", Default: ":8080"},
		"grpc-addr":    {Value: ":8081", From: view.FromDefault, Group: "Addresses and shutdown", Default: ":8081"},
		"state-dir":    {From: view.FromDefault, Group: "Rules"},
	} {
		got := list[name]
		if got.About == "" {
			t.Errorf("%s: nothing says what it does", name)
		}
		if got.Value != want.Value || got.From != want.From || !slices.Equal(got.Variables, want.Variables) || got.Group != want.Group || got.Default != want.Default {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
	}
	if len(list) < 100 || list["config"].Name != "" {
		t.Errorf("%d settings", len(list))
	}
}

// TestNoSettingShowsAPassword: of each setting that takes an address, whichever it is.
func TestNoSettingShowsAPassword(t *testing.T) {
	parser, err := newParser(&stdio{}, envoyenv.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, node := range parser.Model.Children {
		if node.Name != "serve" && node.Name != "proxy" {
			continue
		}
		for _, f := range manual.Settings(node) {
			text := "redis://u:geheim@h:1/x"
			if f.Target.Kind() == reflect.Struct {
				text += "?password=geheim" // others are refused with a query where they are addresses
			}
			value := reflect.New(f.Target.Type()).Elem()
			if f.Parse(kong.Scan().PushTyped(text, kong.FlagValueToken), value) != nil {
				continue // it takes no address
			}
			tried[f.Name] = true
			if got := shownValue(reflect.Indirect(value)); strings.Contains(got, "geheim") {
				t.Errorf("--%s shows %s", f.Name, got)
			}
		}
	}
	for _, name := range []string{"store", "store-per-second", "tenants", "audit-kafka", "rules-url", "dual-run", "to", "rules"} {
		if !tried[name] {
			t.Errorf("--%s was not tried", name)
		}
	}
}

// TestShownSettingsOfRatelimit: what the variables of envoyproxy/ratelimit say comes from the
// environment, but where the file of settings says something else.
func TestShownSettingsOfRatelimit(t *testing.T) {
	for name, value := range map[string]string{"REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": "redis:6379", "REDIS_AUTH": "geheim", "PORT": "9080", "GRPC_PORT": "9081"} {
		t.Setenv(name, value)
	}
	list := shownTo(t, "ratelimit", "--config", settingsFile(t, "http-addr: :1\n"))
	if got := list["grpc-addr"]; got.From != view.FromEnvironment || !slices.Contains(got.Variables, "GRPC_PORT") {
		t.Errorf("grpc-addr is %+v", got)
	}
	if got := list["store"]; got.From != view.FromEnvironment || !slices.Contains(got.Variables, "REDIS_URL") {
		t.Errorf("store is %+v", got)
	}
	if got := list["http-addr"]; got.From != view.FromFile || got.Value != ":1" || got.Variables != nil {
		t.Errorf("http-addr is %+v", got)
	}
}
