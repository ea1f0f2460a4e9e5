package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

// Source names the program that a file was written for.
type Source string

// The sources.
const (
	EnvoyProxy   Source = "envoyproxy"
	EnvoyGateway Source = "envoy-gateway"
	Express      Source = "express-rate-limit"
	HAProxy      Source = "haproxy"
	Kong         Source = "kong"
	Nginx        Source = "nginx"
)

// Bounds of one import, so that no input keeps it busy for long.
const (
	// MaxInput bounds the bytes of the file that is read.
	MaxInput = rulefile.MaxFileSize
	// maxRules bounds the descriptors with limits that are written.
	maxRules = 10_000
	// maxNotes bounds what is listed as not carried over; the last note then says how
	// many more there are.
	maxNotes = 1_000
)

// defaultDomain is the domain of rules whose source has no such thing.
const defaultDomain = "api"

// Options say how a file is imported. The zero value is usable.
type Options struct {
	// Domain is the domain of the rules, "" for defaultDomain. Files of
	// envoyproxy/ratelimit have their own, and take none here.
	Domain string
	// AsIs leaves a file of envoyproxy/ratelimit as it is, for --compat envoy; only its
	// rule test is written.
	AsIs bool
}

// Note is something that the rule file does not say, and why.
type Note struct {
	// Line and Column count from 1. Line 0 means the whole file, and Column 0 that it is not
	// known.
	Line, Column int
	// What is the key or directive, as it is written; "" where Why says it. Why is the reason,
	// and where there is something to do about it, ends with that, or Hint says it.
	What, Why, Hint string
	// Elsewhere marks what is no part of any limit, and has its place in another setting:
	// the limits are whole without it.
	Elsewhere bool
}

// Text is what and why in one sentence, without the hint.
func (n Note) Text() string {
	if n.What == "" {
		return n.Why
	}
	return n.What + ": " + n.Why
}

// Result is what became of a file.
type Result struct {
	// Rules is the rule file.
	Rules []byte
	// Set are its rules, loaded.
	Set *rules.Set
	// Notes is what Rules does not say, in the order of the lines.
	Notes []Note
}

// Whole reports whether every limit was carried over as it was.
func (r *Result) Whole() bool {
	return !slices.ContainsFunc(r.Notes, func(n Note) bool { return !n.Elsewhere })
}

// sources are the readers of each source. A reader adds to the tree what it understands.
var sources = map[Source]func(*reader) error{
	EnvoyGateway: readEnvoyGateway,
	Express:      readExpress,
	HAProxy:      readHAProxy,
	Kong:         readKong,
	Nginx:        readNginx,
}

// Import reads a file of source. An error means that nothing could be made of it: it is no
// file of that kind, there is no limit in it, or a limit is out of Headgate's bounds. It
// then begins with the name of the file and, where that is known, the line.
func Import(source Source, file rulefile.File, o Options) (*Result, error) {
	if len(file.Data) > MaxInput {
		return nil, yamlfile.In(file.Name, fmt.Errorf("larger than %d MiB; hint: split it", MaxInput>>20))
	}
	if source == EnvoyProxy {
		return importEnvoyProxy(file, o)
	}
	if o.AsIs {
		return nil, fmt.Errorf("only files of %s can be left as they are", EnvoyProxy)
	}
	read, ok := sources[source]
	if !ok {
		return nil, fmt.Errorf("unknown source %q", source)
	}
	r := &reader{data: file.Data, tree: tree{domain: cmp.Or(o.Domain, defaultDomain)}}
	if err := read(r); err != nil {
		return nil, yamlfile.In(file.Name, err)
	}
	return r.result(source, file.Name)
}

// reader is what the readers of all sources fill.
type reader struct {
	data  []byte
	tree  tree
	notes []Note
	more  int // notes beyond maxNotes
}

// note says that what stands on a line is not carried over.
func (r *reader) note(line int, what, why string, args ...any) {
	r.add(Note{Line: line, What: what, Why: fmt.Sprintf(why, args...)})
}

// elsewhere says where something belongs that is no part of a limit.
func (r *reader) elsewhere(line int, what, why string, args ...any) {
	r.add(Note{Line: line, What: what, Why: fmt.Sprintf(why, args...), Elsewhere: true})
}

func (r *reader) add(n Note) {
	n.What = short(n.What)
	switch {
	case slices.Contains(r.notes, n):
	case len(r.notes) < maxNotes:
		r.notes = append(r.notes, n)
	default:
		r.more++
	}
}

// maxWhat bounds the text that a note cites.
const maxWhat = 120

// short cuts what a note cites, so that a long line does not fill the screen.
func short(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	if len(text) <= maxWhat {
		return text
	}
	return strings.ToValidUTF8(text[:maxWhat], "") + "..."
}

// result writes the rules and loads them.
func (r *reader) result(source Source, name string) (*Result, error) {
	if r.more > 0 {
		r.notes = append(r.notes, Note{What: "more", Why: fmt.Sprintf("%d more things are not carried over", r.more)})
	}
	slices.SortStableFunc(r.notes, func(a, b Note) int { return cmp.Compare(a.Line, b.Line) })
	if r.tree.rules == 0 {
		return nil, yamlfile.In(name, &NothingError{r.notes})
	}
	if r.tree.rules > maxRules {
		return nil, yamlfile.In(name, fmt.Errorf("more than %d descriptors with limits; hint: split it", maxRules))
	}
	text, err := r.tree.write(source, r.notes)
	if err != nil {
		return nil, yamlfile.In(name, err)
	}
	set, err := rulefile.Load([]rulefile.File{{Name: name, Data: text}}, rulefile.Options{})
	if err != nil {
		return nil, yamlfile.In(name, fmt.Errorf("the rules that came of it are refused: %w", withoutPlaces(err)))
	}
	return &Result{Rules: text, Set: set, Notes: r.notes}, nil
}

// withoutPlaces takes from the errors of a rule file that nobody has seen where they are.
func withoutPlaces(err error) error {
	list, ok := err.(rules.Errors)
	if !ok || len(list) == 0 {
		return err
	}
	first := list[0]
	first.File, first.Line, first.Column = "", 0, 0
	return rules.Errors{first}
}

// NothingError says that a file has no limit that can be carried over.
type NothingError struct {
	// Notes says why not.
	Notes []Note
}

// Error implements error.
func (e *NothingError) Error() string {
	return "no limit in it can be carried over; hint: is this the right file, and the right kind of file?"
}
