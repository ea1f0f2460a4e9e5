package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/spelling"
)

// maxFileBytes bounds the file of settings; a written-out one has 2 KiB.
const maxFileBytes = 1 << 20

// File is a kong.Resolver that takes the values of flags from the YAML file
// that the flag --config names. The keys of the file are the names of flags. A
// value from the environment wins over one from the file.
type File struct {
	path   string
	loaded bool
	values map[string]fileValue
}

// FileError says what is wrong with the file of settings, and where. The parser
// of the command line wraps it into words about some flag; who prints it should
// take it out again with errors.As.
type FileError struct {
	Path string
	Line int // 0: the whole file
	Err  error
}

// Error implements error.
func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

type fileValue struct {
	text string
	line int
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
		return nil, &FileError{f.path, v.line, err}
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
// wrong can be reported with the line it stands on.
func try(flag *kong.Flag, text string) error {
	scan := kong.Scan().PushTyped(text, kong.FlagValueToken)
	if err := flag.Parse(scan, reflect.New(flag.Target.Type()).Elem()); err != nil {
		return err
	}
	if choices := flag.EnumSlice(); flag.Enum != "" && !slices.Contains(choices, text) {
		choices = slices.DeleteFunc(choices, func(choice string) bool { return choice == "" }) // whoever means none leaves the setting out
		return fmt.Errorf("%s: %q is not a choice; hint: one of %s", flag.ShortSummary(), text, strings.Join(choices, ", "))
	}
	return nil
}

func (f *File) load(path string, flags []*kong.Flag) error {
	if f.loaded {
		return nil
	}
	values, err := readFile(path)
	if err != nil {
		return err
	}
	for key, v := range values {
		if !slices.ContainsFunc(flags, func(fl *kong.Flag) bool { return fl.Name == key && key != "config" && key != "help" }) {
			return &FileError{path, v.line, fmt.Errorf("unknown setting %q; hint: %s", key, instead(key, flags))}
		}
	}
	f.path, f.values, f.loaded = path, values, true
	return nil
}

// instead says what to write for a key that is no setting.
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
	return "settings have the names of the flags that --help shows, without the dashes"
}

func readFile(path string) (map[string]fileValue, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, &FileError{path, 0, fmt.Errorf("read settings: %w", errors.Unwrap(err))}
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, &FileError{path, 0, fmt.Errorf("read settings: %w", err)}
	}
	if len(data) > maxFileBytes {
		return nil, &FileError{path, 0, fmt.Errorf("larger than %d bytes; hint: is this a file of settings?", maxFileBytes)}
	}
	return parseFile(path, data)
}

// parseFile reads a flat mapping of scalars. Anchors, nesting and repeated keys
// are refused: a setting has one value, in sight.
func parseFile(path string, data []byte) (map[string]fileValue, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, &FileError{path, 0, err}
	}
	var doc yaml.Node
	if err := loader.Load(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, &FileError{path, 0, fmt.Errorf("not YAML: %w", err)}
	}
	root := doc.Content[0]
	if root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, &FileError{path, root.Line, errors.New("not a mapping; hint: write `http-addr: :8080`, one setting to a line")}
	}
	values := make(map[string]fileValue, len(root.Content)/2)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if err := checkPair(values, key, value); err != nil {
			return nil, &FileError{path, key.Line, err}
		}
		values[key.Value] = fileValue{text: value.Value, line: key.Line}
	}
	return values, nil
}

func checkPair(seen map[string]fileValue, key, value *yaml.Node) error {
	if key.Kind != yaml.ScalarNode {
		return errors.New("the name of a setting is a word")
	}
	if value.Kind != yaml.ScalarNode || value.Tag == "!!null" {
		return fmt.Errorf("%s: not a single value; hint: write `%s: VALUE`", key.Value, key.Value)
	}
	if old, ok := seen[key.Value]; ok {
		return fmt.Errorf("%s: given a second time; hint: the first is on line %d", key.Value, old.line)
	}
	return nil
}
