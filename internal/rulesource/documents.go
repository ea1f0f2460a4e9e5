package rulesource

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

// maxTriedAlone bounds the documents that are tried one after the other, which is
// quadratic, where the errors of all together name none of them.
const maxTriedAlone = 64

// RefusedDocument is a document that is not in force.
type RefusedDocument struct {
	Name string
	Err  error
	// Before says that an earlier text of it is in force in its place.
	Before bool
}

// String returns what is wrong, for logs.
func (r *RefusedDocument) String() string {
	if r.Before {
		return fmt.Sprintf("%s, whose text before stays in force: %v", r.Name, r.Err)
	}
	return fmt.Sprintf("%s: %v", r.Name, r.Err)
}

// SetDocuments makes docs and rows the rules that count beside the files, in place of
// those of the call before. Unlike a file, a document that is bad, by itself or beside
// the others, is left out by itself: the last text of its name that was in force stays,
// if there was one. Where a domain may have one file only, files go before documents,
// and documents before those of later names. A row that is bad is left out.
func (s *Source) SetDocuments(docs []rulefile.File, rows []rules.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.EqualFunc(s.mu.docs, docs, sameFile) && slices.EqualFunc(s.mu.joiner.options.Rows, rows, func(a, b rules.Row) bool { return a.Alike(&b) }) {
		return
	}
	s.mu.docs, s.mu.joiner.options.Rows = docs, rows
	if s.mu.fileSet == nil {
		return // Load will
	}
	s.inForceLocked()
	s.reportLocked(Joined, nil)
	s.tellRefusedLocked()
}

func sameFile(a, b rulefile.File) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) }

// maxTold bounds the documents and rows that are reported at once.
const maxTold = 20

// tellRefusedLocked reports the documents and rows that were not refused for the same
// reason before.
func (s *Source) tellRefusedLocked() {
	told, fresh := map[string]bool{}, 0
	tell := func(text string) {
		if told[text] = true; s.mu.told[text] {
			return
		}
		if fresh++; fresh <= maxTold {
			s.reportLocked(DocumentRefused, errors.New(text))
		}
	}
	status := s.Status()
	for _, r := range status.Refused {
		tell(r.String())
	}
	for _, r := range status.BadRows {
		tell(r.Error())
	}
	if fresh > maxTold {
		s.reportLocked(DocumentRefused, fmt.Errorf("and %d more", fresh-maxTold))
	}
	s.mu.told = told
}

// Try returns the rules that there would be with d among the documents, in place of
// that of its name, and changes nothing. The error says why d cannot be there; where
// its text is at fault it is of type rules.Errors. Who has no data is taken out.
func (s *Source) Try(d rulefile.File) (*rules.Set, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.fileSet == nil {
		return nil, errors.New("the rules have not been read yet")
	}
	docs := slices.DeleteFunc(slices.Clone(s.mu.docs), func(other rulefile.File) bool { return other.Name == d.Name })
	if len(d.Data) > 0 {
		docs = append(docs, d)
		slices.SortFunc(docs, func(a, b rulefile.File) int { return strings.Compare(a.Name, b.Name) })
	}
	j := joiner{options: s.mu.joiner.options, looked: s.mu.joiner.looked}
	set, refused := j.join(s.mu.files, s.mu.fileSet, docs)
	already := map[string]bool{}
	for _, r := range s.Status().Refused {
		already[r.Name] = true
	}
	for _, r := range refused {
		if r.Name == d.Name {
			return nil, r.Err
		}
		if !already[r.Name] {
			return nil, s.blameLocked(d, docs, r)
		}
	}
	return set, nil
}

// blameLocked says why d cannot be among docs, where r would have to go for it: by their
// names r comes later, so that the fault was found there. It lies with who is new.
func (s *Source) blameLocked(d rulefile.File, docs []rulefile.File, r RefusedDocument) error {
	others := slices.DeleteFunc(slices.Clone(docs), func(other rulefile.File) bool { return other.Name == d.Name })
	j := joiner{options: s.mu.joiner.options, looked: s.mu.joiner.looked}
	_, refused := j.join(s.mu.files, s.mu.fileSet, append(others, d))
	for _, of := range refused {
		if of.Name == d.Name {
			return of.Err
		}
	}
	return fmt.Errorf("beside it %s could not be in force: %w", r.Name, r.Err)
}

// joiner puts documents beside files.
type joiner struct {
	options rulefile.Options
	// looked is what is known of each text by itself, inForce the texts of documents
	// in force; by name.
	looked  map[string]looked
	inForce map[string]rulefile.File
}

// looked is a document by itself.
type looked struct {
	data    []byte
	domains []string
	err     error
}

// join returns the rules of files, whose rules alone are fileSet, and docs, as far as
// they can be, and the documents that are not among them.
func (j *joiner) join(files []rulefile.File, fileSet *rules.Set, docs []rulefile.File) (*rules.Set, []RefusedDocument) {
	before, seen := j.inForce, make(map[string]looked, len(docs))
	j.inForce = map[string]rulefile.File{}
	t := trial{joiner: j, files: files, owners: map[string]string{}, refused: map[string]error{}}
	for _, name := range fileSet.Domains() {
		t.owners[name] = "the rule files have"
	}
	room, size := rulefile.MaxFiles-len(files), 0
	for i, d := range docs {
		seen[d.Name] = j.look(d)
		if size += len(d.Data); i >= room || size > maxTotalBytes {
			t.refused[d.Name] = fmt.Errorf("more than %d files and documents, or %d MiB of documents", rulefile.MaxFiles, maxTotalBytes>>20)
			continue
		}
		if err := t.add(d, seen[d.Name]); err != nil {
			t.refused[d.Name] = err
			if earlier, ok := before[d.Name]; ok && t.add(earlier, j.look(earlier)) == nil {
				continue
			}
		}
	}
	j.looked = seen
	set := t.load(fileSet)
	var refused []RefusedDocument
	for _, d := range t.docs {
		j.inForce[d.Name] = d
	}
	for _, d := range docs {
		if err := t.refused[d.Name]; err != nil {
			_, stays := j.inForce[d.Name]
			refused = append(refused, RefusedDocument{d.Name, err, stays})
		}
	}
	return set, refused
}

// look returns what is known of a document by itself.
func (j *joiner) look(d rulefile.File) looked {
	if l, ok := j.looked[d.Name]; ok && bytes.Equal(l.data, d.Data) {
		return l
	}
	l := looked{data: d.Data}
	set, err := rulefile.Load([]rulefile.File{d}, j.withoutRows())
	if l.err = err; err == nil {
		l.domains = set.Domains()
	}
	return l
}

// trial is the documents of one join.
type trial struct {
	*joiner
	files []rulefile.File
	// docs are those that are in so far.
	docs    []rulefile.File
	owners  map[string]string // of domains; what messages call them
	refused map[string]error
}

// add takes a document in unless it cannot be by itself, or has a domain of another.
func (t *trial) add(d rulefile.File, l looked) error {
	if l.err != nil {
		return l.err
	}
	for _, name := range l.domains {
		if owner := t.owners[name]; owner != "" && !t.options.MergeDomains {
			return fmt.Errorf("%s domain %s already; hint: --merge-domains lets them share it", owner, name)
		}
	}
	for _, name := range l.domains {
		t.owners[name] = d.Name + " has"
	}
	t.docs = append(t.docs, d)
	return nil
}

// load returns the rules of files and documents. It drops documents that cannot be
// beside the others; without any the rules are fileSet.
func (t *trial) load(fileSet *rules.Set) *rules.Set {
	for len(t.docs) > 0 || len(t.options.Rows) > 0 {
		set, err := rulefile.Load(slices.Concat(t.files, t.docs), t.options)
		if err == nil {
			return set
		}
		if len(t.docs) == 0 {
			break
		}
		if !t.dropNamed(err) {
			t.dropOneByOne()
		}
	}
	return fileSet
}

// withoutRows are the options for a trial of documents: rows refuse none, and would be
// compiled for each.
func (j *joiner) withoutRows() rulefile.Options {
	o := j.options
	o.Rows = nil
	return o
}

// dropNamed drops the documents that errors name, and reports whether there were any.
func (t *trial) dropNamed(err error) bool {
	list, ok := errors.AsType[rules.Errors](err)
	if !ok {
		return false
	}
	of := map[string]rules.Errors{}
	for _, d := range list {
		of[d.File] = append(of[d.File], d)
	}
	before := len(t.docs)
	t.docs = slices.DeleteFunc(t.docs, func(d rulefile.File) bool {
		own := of[d.Name]
		if own != nil && t.refused[d.Name] == nil {
			t.refused[d.Name] = own
		}
		return own != nil
	})
	return len(t.docs) < before
}

// dropOneByOne drops every document that cannot be beside the files and those before
// it.
func (t *trial) dropOneByOne() {
	kept := t.docs[:0:0]
	for i, d := range t.docs {
		err := fmt.Errorf("it cannot be tried beside %d others", i)
		if i < maxTriedAlone {
			_, err = rulefile.Load(slices.Concat(t.files, kept, []rulefile.File{d}), t.withoutRows())
		}
		if err == nil {
			kept = append(kept, d)
		} else if t.refused[d.Name] == nil {
			t.refused[d.Name] = err
		}
	}
	t.docs = kept
}
