package cli

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/envoyenv"
	"github.com/headgate/headgate/internal/manual"
	"github.com/headgate/headgate/internal/view"
)

// setting is one that a command was given, or its default.
type setting struct {
	view.Setting
	// follows says that nothing is given, and that what it means follows from others.
	follows bool
}

// settingsOf returns the settings that a command is given, without passwords, in the order
// of its help.
func settingsOf(parsed *kong.Context, environment envoyenv.Environment) []setting {
	flags := manual.Settings(parsed.Selected())
	list := make([]setting, len(flags))
	for i, f := range flags {
		from, variables := origin(parsed, f, environment)
		list[i].Setting = view.Setting{Name: f.Name, From: from, Variables: variables, Default: f.Default, About: f.Help}
		if f.Group != nil {
			list[i].Group = strings.TrimSuffix(f.Group.Title, ":")
		}
		if value := reflect.Indirect(f.Target); value.IsValid() {
			list[i].Value = shownValue(value)
		} else {
			list[i].follows = true
		}
	}
	return list
}

// shownValue returns a value as a file of settings has it, without a password. Settings whose
// values may hold one elsewhere than in front of the host of an address have types that hide it.
func shownValue(value reflect.Value) string { return hideCredentials(fmt.Sprint(value.Interface())) }

// shownSettings is settingsOf as operators of the process see them.
func shownSettings(parsed *kong.Context, environment envoyenv.Environment) view.Settings {
	shown := view.Settings{Command: parsed.Selected().FullPath(), Settings: []view.Setting{}}
	for _, s := range settingsOf(parsed, environment) {
		shown.Settings = append(shown.Settings, s.Setting)
	}
	return shown
}

// origin says where the value of a flag comes from, and of the environment by which
// variables.
func origin(parsed *kong.Context, f *kong.Flag, environment envoyenv.Environment) (view.SettingSource, []string) {
	for _, step := range parsed.Path {
		switch {
		case step.Flag != f:
		case !step.Resolved:
			return view.FromCommandLine, nil
		case fromFallback(f, environment):
			return view.FromEnvironment, environment.Variables(f.Name)
		default:
			return view.FromFile, nil
		}
	}
	at := slices.IndexFunc(f.Envs, func(name string) bool {
		_, ok := os.LookupEnv(name)
		return ok
	})
	if at >= 0 {
		return view.FromEnvironment, f.Envs[at : at+1]
	}
	return view.FromDefault, nil
}

// fromFallback reports whether a value that was resolved is the one that the variables of
// envoyproxy/ratelimit say: the file of settings wins over them.
func fromFallback(f *kong.Flag, environment envoyenv.Environment) bool {
	text, ok := environment.Settings[f.Name]
	if !ok {
		return false
	}
	meant := reflect.New(f.Target.Type()).Elem()
	err := f.Parse(kong.Scan().PushTyped(text, kong.FlagValueToken), meant)
	return err == nil && reflect.DeepEqual(meant.Interface(), f.Target.Interface())
}
