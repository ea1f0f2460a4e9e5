package tenantsource

import (
	"errors"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/lint"
	"github.com/headgate/headgate/rules/rulefile"
)

// Checker returns what says whether a document of rules could be in force beside
// everything else of source, and what is odd in it.
func Checker(source *rulesource.Source) func(name, text string) ([]rules.Diagnostic, error) {
	drafts := Drafts{source}
	return func(name, text string) ([]rules.Diagnostic, error) {
		_, odd, err := drafts.TryDocument(name, text)
		return odd, err
	}
}

// Drafts tries texts of rules beside everything else of a source, and changes nothing.
type Drafts struct{ Source *rulesource.Source }

// Files returns the rule files in force. Nobody may change their data.
func (d Drafts) Files() []rulefile.File { return d.Source.Files() }

// FileOptions are those by which the rule files are loaded.
func (d Drafts) FileOptions() rulefile.Options { return d.Source.FileOptions() }

// DocumentOf returns the name of the document that a rule stands in, by its file; false where that is none.
func (d Drafts) DocumentOf(file string) (name string, stored bool) {
	return strings.CutPrefix(file, documentFile(""))
}

// TryDocument returns the rules that there would be with text as the document of a name, and what
// is odd in it. The error says why it cannot be; where a text is at fault, it is of type
// rules.Errors.
func (d Drafts) TryDocument(name, text string) (*rules.Set, []rules.Diagnostic, error) {
	file := documentFile(name)
	set, err := d.Source.Try(rulefile.File{Name: file, Data: []byte(text)})
	set, odd, err := looked(set, file, err)
	if list, ok := errors.AsType[rules.Errors](err); ok {
		return nil, nil, rules.Errors(renamed(list, file, name))
	}
	return set, renamed(odd, file, name), err
}

// TryFile is TryDocument for a rule file.
func (d Drafts) TryFile(name, text string) (*rules.Set, []rules.Diagnostic, error) {
	set, err := d.Source.TryFile(rulefile.File{Name: name, Data: []byte(text)})
	return looked(set, name, err)
}

// looked adds what is odd in a file of set.
func looked(set *rules.Set, file string, err error) (*rules.Set, []rules.Diagnostic, error) {
	if err != nil {
		return nil, nil, err
	}
	odd := append(set.Warnings(), lint.Check(set)...)
	odd = slices.DeleteFunc(odd, func(d rules.Diagnostic) bool { return d.File != file })
	rules.SortDiagnostics(odd)
	return set, odd, nil
}

// renamed returns list with a file under another name.
func renamed(list []rules.Diagnostic, from, to string) []rules.Diagnostic {
	list = slices.Clone(list)
	for i := range list {
		if list[i].File == from {
			list[i].File = to
		}
	}
	return list
}

// RuleOrigin says where a rule comes from, by its file.
func RuleOrigin(file string) string {
	switch {
	case file == rules.RowsFile:
		return "row"
	case strings.HasPrefix(file, documentFile("")):
		return "document"
	}
	return "file"
}

// documentFile is what messages call a document of rules.
func documentFile(name string) string { return "database:" + name }
