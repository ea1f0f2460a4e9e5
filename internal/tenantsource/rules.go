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
	return func(name, text string) ([]rules.Diagnostic, error) {
		file := documentFile(name)
		set, err := source.Try(rulefile.File{Name: file, Data: []byte(text)})
		var list rules.Errors
		if errors.As(err, &list) {
			return nil, rules.Errors(renamed(list, file, name))
		}
		if err != nil {
			return nil, err
		}
		odd := slices.DeleteFunc(lint.Check(set), func(d rules.Diagnostic) bool { return d.File != file })
		return renamed(odd, file, name), nil
	}
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
