package rulefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/headgate/headgate/descriptor"
)

// Bounds of what Load reads. A file beyond them is refused before it can cost
// much memory or time.
const (
	// MaxFileSize is the most bytes of one file: 8 MiB, about eighty thousand
	// rules.
	MaxFileSize = 8 << 20
	// MaxFiles is the most files of one set.
	MaxFiles = 10_000
	// maxYAMLDepth bounds the nesting of YAML: two levels (list and map) for
	// each level of descriptors, and room for metadata.
	maxYAMLDepth = 2*descriptor.MaxEntries + 64
	// maxAliasNodes bounds the YAML nodes that are visited through aliases in
	// one file, so that a few lines cannot stand for a billion rules.
	maxAliasNodes = 1_000_000
	// maxDescriptors bounds the descriptors of one file: more than a file of
	// MaxFileSize has if each has a key, a value and a limit.
	maxDescriptors = 200_000
	// maxDiagnostics bounds what is told about one file: who has a thousand
	// errors needs the first.
	maxDiagnostics = 1000
)

// File is one file of rules.
type File struct {
	// Name is what diagnostics call the file, and what files are sorted by. Those
	// without a name come first, and are called "file 1" and so on.
	Name string
	Data []byte
}

// Line returns the nth line of the file, counted from 1, without its end; false if there is
// none.
func (f File) Line(n int) ([]byte, bool) {
	rest, ok := f.Data, n >= 1
	for ; ok && n > 1; n-- {
		_, rest, ok = bytes.Cut(rest, []byte("\n"))
	}
	if !ok {
		return nil, false
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return line, true
}

// parseYAML returns the root node of the first document, nil if the file has
// none. Errors are reported to r.
func parseYAML(r *reader, data []byte) (root *yaml.Node) {
	if len(data) > MaxFileSize {
		r.errorf(position{}, "split it into several files and merge their domains",
			"error loading config file: the file has %d bytes, more than %d", len(data), MaxFileSize)
		return nil
	}
	if at, ok := invalidUTF8(data); !ok {
		r.errorf(at, "save the file as UTF-8", "error loading config file: not valid UTF-8")
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(
		loaderlimits.New(loaderlimits.DepthValue(maxYAMLDepth))))
	if err != nil {
		r.errorf(position{}, "", "error loading config file: %v", err)
		return nil
	}
	var document, next yaml.Node
	if err := loader.Load(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		reportYAML(r, data, err)
		return nil
	}
	if err := loader.Load(&next); !errors.Is(err, io.EOF) {
		r.tolerate(position{next.Line, max(next.Column, 1)}, "write one document in each file",
			"only the first document of the file is read")
	}
	if len(document.Content) == 0 {
		return nil
	}
	return document.Content[0]
}

// reportYAML reports a syntax error where the parser found it.
func reportYAML(r *reader, data []byte, err error) {
	load, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		r.errorf(position{}, "", "error loading config file: %v", err)
		return
	}
	message := load.Message
	if load.ContextMsg != "" {
		message = load.ContextMsg + ": " + message
	}
	at := position{load.Mark.Line, load.Mark.Column}
	if at.line == 0 {
		at = position{1, 1}
	}
	hint := "check the indentation, the quotes and the brackets before this place"
	if line, _ := (File{Data: data}).Line(at.line); indentsByTab(line) {
		hint = "the line begins with a tab: YAML indents by spaces"
	}
	r.errorf(at, hint, "error loading config file: yaml: %s", message)
}

// indentsByTab reports whether a tab is among what a line begins with.
func indentsByTab(line []byte) bool {
	blank := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
	return bytes.ContainsRune(blank, '\t')
}

// invalidUTF8 finds the first byte that is not UTF-8. Files that begin with the
// byte order mark of UTF-16 are left to the YAML parser, which reads them.
func invalidUTF8(data []byte) (at position, ok bool) {
	if utf8.Valid(data) || bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return position{}, true
	}
	at = position{1, 1}
	for len(data) > 0 {
		c, size := utf8.DecodeRune(data)
		if c == utf8.RuneError && size == 1 {
			return at, false
		}
		at.column++
		if c == '\n' {
			at = position{at.line + 1, 1}
		}
		data = data[size:]
	}
	return position{}, true
}

// recovered turns a panic of the YAML parser into an error: a file of rules
// must never end the process.
func recovered(r *reporter) {
	if cause := recover(); cause != nil {
		r.errorf(position{}, "the file may be damaged; please report it",
			"error loading config file: %s", fmt.Sprint(cause))
	}
}
