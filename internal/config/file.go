package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/spelling"
	"github.com/headgate/headgate/internal/yamlfile"
)

// maxFileBytes bounds the file of settings; a written-out one has 2 KiB.
const maxFileBytes = 1 << 20

// File is a kong.Resolver that takes the values of flags from the YAML file
// that the flag --config names. The keys of the file are the names of flags. A
// value from the environment wins over one from the file. What is wrong with the file is
// a *yamlfile.Error, which has no value of it. The parser of the command line wraps it into words about
// some flag; who prints it should take it out again with errors.As.
type File struct {
	path   string
	loaded bool
	values map[string]fileValue
}

type fileValue struct {
	text string
	// at is the key.
	at *yaml.Node
}

var _ kong.Resolver = (*File)(nil)

// Validate implements kong.Resolver; the file is not known yet at that time.
func (f *File) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (f *File) Resolve(ctx *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	path := configPath(ctx, parent)
	if path == "" || flag.Name == "config" {
		return nil, nil
	}
	if err := f.load(path, parent.Flags); err != nil {
		return nil, err
	}
	v, ok := f.values[flag.Name]
	if !ok || inEnvironment(flag) {
		return nil, nil
	}
	if err := try(flag, v.text); err != nil {
		return nil, yamlfile.In(f.path, yamlfile.At(v.at, "%w", err))
	}
	return v.text, nil
}

// Fallbacks is a kong.Resolver that takes the values of flags, by their names, from what was
// said in another way. A value from the environment wins over one of these, and so does one
// of a resolver that follows.
type Fallbacks map[string]string

var _ kong.Resolver = Fallbacks(nil)

// Validate implements kong.Resolver.
func (Fallbacks) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (f Fallbacks) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	value, ok := f[flag.Name]
	if !ok || inEnvironment(flag) {
		return nil, nil
	}
	return value, nil
}

// configPath returns the value of --config of the command that parent stands
// for, from the command line or the environment.
func configPath(ctx *kong.Context, parent *kong.Path) string {
	for _, flag := range parent.Flags {
		if flag.Name == "config" {
			path, _ := ctx.FlagValue(flag).(string)
			return path
		}
	}
	return ""
}

func inEnvironment(flag *kong.Flag) bool {
	return slices.ContainsFunc(flag.Envs, func(name string) bool {
		_, ok := os.LookupEnv(name)
		return ok
	})
}

// try parses text as flag would and throws the value away, so that what is
// wrong can be reported with the line it stands on. The error does not hold the text.
func try(flag *kong.Flag, text string) error {
	scan := kong.Scan().PushTyped(text, kong.FlagValueToken)
	if flag.Parse(scan, reflect.New(flag.Target.Type()).Elem()) != nil {
		return fmt.Errorf("--%s: the value is none that it takes; hint: %s", flag.Name, wanted(flag))
	}
	if choices := flag.EnumSlice(); flag.Enum != "" && !slices.Contains(choices, text) {
		choices = slices.DeleteFunc(choices, func(choice string) bool { return choice == "" }) // whoever means none leaves the setting out
		return fmt.Errorf("--%s: %w", flag.Name, spelling.Unknown("choice", text, choices...))
	}
	return nil
}

// wanted says what a flag takes.
func wanted(flag *kong.Flag) string {
	switch t := flag.Target.Type(); {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration, such as 250ms or 5s"
	case t == reflect.TypeFor[Size]():
		return "bytes, such as 64MiB"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case flag.Target.CanInt() || flag.Target.CanUint():
		return "a whole number"
	case flag.Target.CanFloat():
		return "a number"
	}
	return "--help shows what"
}

func (f *File) load(path string, flags []*kong.Flag) error {
	if f.loaded {
		return nil
	}
	values, err := readFile(path, flags)
	if err != nil {
		return err
	}
	for key, v := range values {
		if !isSetting(key, flags) {
			return yamlfile.In(path, unknown(v.at, flags))
		}
	}
	f.path, f.values, f.loaded = path, values, true
	return nil
}

// isSetting reports whether a file may have a key.
func isSetting(key string, flags []*kong.Flag) bool {
	return slices.ContainsFunc(flags, func(fl *kong.Flag) bool { return fl.Name == key && key != "config" && key != "help" })
}

// unknown is the error of a key that is no setting. It names the key only if it is near to one that
// is: another one may be a value that stands in its place.
func unknown(at *yaml.Node, flags []*kong.Flag) error {
	if hint := instead(at.Value, flags); hint != "" {
		return yamlfile.At(at, "unknown setting %q; hint: %s", at.Value, hint)
	}
	return yamlfile.At(at, "unknown setting; hint: settings have the names of the flags that --help shows, without the dashes")
}

// instead says what to write for a key that is no setting; "" where it is like none.
func instead(key string, flags []*kong.Flag) string {
	names := func(yield func(string) bool) {
		for _, fl := range flags {
			if fl.Name != "config" && fl.Name != "help" && !yield(fl.Name) {
				return
			}
		}
	}
	if name, negated := strings.CutPrefix(key, "no-"); negated && slices.ContainsFunc(flags, func(fl *kong.Flag) bool { return fl.Name == name && fl.Tag.Negatable != "" }) {
		return fmt.Sprintf("the flag --%s is `%s: false` in a file", key, name)
	}
	if near := spelling.Nearest(key, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

func readFile(path string, flags []*kong.Flag) (map[string]fileValue, error) {
	data, err := yamlfile.Read(path, maxFileBytes)
	if err != nil {
		if failed, ok := errors.AsType[*os.PathError](err); ok {
			err = fmt.Errorf("read settings: %w", failed.Err)
		}
		return nil, yamlfile.In(path, err)
	}
	values, err := parseFile(data, flags)
	return values, yamlfile.In(path, err)
}

// parseFile reads a flat mapping of scalars. Anchors, nesting and repeated keys
// are refused: a setting has one value, in sight.
func parseFile(data []byte, flags []*kong.Flag) (map[string]fileValue, error) {
	var doc yaml.Node
	if err := yamlfile.Parse(data, &doc); errors.Is(err, yamlfile.ErrEmpty) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	root := doc.Content[0]
	if root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, yamlfile.At(root, "not a mapping; hint: write `http-addr: :8080`, one setting to a line")
	}
	values := make(map[string]fileValue, len(root.Content)/2)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if err := checkPair(values, key, value); err != nil {
			if isSetting(key.Value, flags) {
				err = fmt.Errorf("%s: %w", key.Value, err)
			}
			return nil, yamlfile.At(key, "%w", err)
		}
		values[key.Value] = fileValue{text: value.Value, at: key}
	}
	return values, nil
}

func checkPair(seen map[string]fileValue, key, value *yaml.Node) error {
	switch old, twice := seen[key.Value]; {
	case key.Kind != yaml.ScalarNode:
		return errors.New("the name of a setting is a word")
	case twice:
		return fmt.Errorf("given a second time; hint: the first is on line %d", old.at.Line)
	case value.Kind != yaml.ScalarNode || value.Tag == "!!null":
		return errors.New("not a single value; hint: write `NAME: VALUE`")
	}
	return nil
}
