package rulesource

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

// Files returns the rule files in force, without the documents. Nobody may change their data.
func (s *Source) Files() []rulefile.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.files)
}

// FileOptions are those by which rule files are loaded, without rows.
func (s *Source) FileOptions() rulefile.Options { return s.o.Rules }

// TryFile returns the rules that there would be with f in place of the rule file of its name, and
// changes nothing. The error says why these files would be refused, by the guard too; where a
// text is at fault it is of type rules.Errors.
func (s *Source) TryFile(f rulefile.File) (*rules.Set, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	files := slices.Clone(s.mu.files)
	at := slices.IndexFunc(files, func(other rulefile.File) bool { return other.Name == f.Name })
	if at < 0 {
		return nil, fmt.Errorf("there is no rule file %.200q in force", f.Name)
	}
	files[at] = f
	fileSet, err := rulefile.Load(files, s.o.Rules)
	if err != nil {
		return nil, err
	}
	if !s.o.AllowDrop {
		if err := guard(s.mu.fileSet, fileSet); err != nil {
			return nil, err
		}
	}
	already := map[string]bool{}
	for _, r := range s.Status().Refused {
		already[r.Name] = true
	}
	j := joiner{options: s.mu.joiner.options, looked: s.mu.joiner.looked}
	set, refused := j.join(files, fileSet, s.mu.docs)
	for _, r := range refused {
		if !already[r.Name] {
			return nil, fmt.Errorf("beside it %s could not be in force: %w", r.Name, r.Err)
		}
	}
	return set, nil
}
