package rulesource

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/rules/rulefile"
)

func doc(name, text string) rulefile.File { return rulefile.File{Name: name, Data: []byte(text)} }

// refused returns the names of the documents that are not in force, with a "+" where
// an earlier text is.
func refused(s *Source) string {
	var names []string
	for _, r := range s.Status().Refused {
		name := r.Name
		if r.Before {
			name += "+"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func TestDocumentsCountBesideFiles(t *testing.T) {
	path := t.TempDir() + "/a.yaml"
	write(t, path, ruleText("a", 2))
	s, r := loaded(t, Options{Path: path})
	s.SetDocuments([]rulefile.File{doc("db:b", ruleText("b", 3))}, nil)
	expectRules(t, r, 5)
	s.SetDocuments([]rulefile.File{doc("db:b", ruleText("b", 3))}, nil)
	expectKinds(t, r, "loaded, joined") // the same again is no change

	// A change of the files keeps them, and one of them the files.
	write(t, path, ruleText("a", 3))
	s.check(false)
	expectRules(t, r, 6)
	s.SetDocuments([]rulefile.File{doc("db:b", ruleText("b", 1)), doc("db:c", ruleText("c", 1))}, nil)
	expectRules(t, r, 5)
	write(t, path, "domain: a\ndescriptors: oops")
	s.check(false)
	expectRules(t, r, 5)
	if st := s.Status(); st.Err == nil || st.Version != r.last().Set.Version() {
		t.Errorf("status %+v", st)
	}
	s.SetDocuments(nil, nil)
	expectRules(t, r, 3)
	if s.Status().Err == nil {
		t.Error("other documents take the fault of the files away")
	}
}

func TestWithoutFilesDocumentsAreTheRules(t *testing.T) {
	s, r := loaded(t, Options{StateDir: t.TempDir()})
	expectRules(t, r, 0)
	s.SetDocuments([]rulefile.File{doc("db:b", ruleText("b", 3))}, nil)
	expectRules(t, r, 3)
	s.check(true)
	expectKinds(t, r, "loaded, joined")
	expectRules(t, r, 3)
}

// A document that is bad is left out by itself, or its text before stays, and it is
// told once.
func TestBadDocumentIsLeftOut(t *testing.T) {
	path := t.TempDir() + "/a.yaml"
	write(t, path, ruleText("a", 2))
	s, r := loaded(t, Options{Path: path})
	s.SetDocuments([]rulefile.File{doc("db:b", ruleText("b", 3)), doc("db:c", "domain: c\ndescriptors: [{key: x, rate_limit: lots}]")}, nil)
	expectRules(t, r, 5)
	expectKinds(t, r, "loaded, joined, document refused")
	if got := refused(s); got != "db:c" || !strings.Contains(r.last().Err.Error(), "db:c") {
		t.Errorf("refused %q, told %v", got, r.last().Err)
	}
	write(t, path, ruleText("a", 1))
	s.check(false)
	expectKinds(t, r, "loaded, joined, document refused, loaded")

	s.SetDocuments([]rulefile.File{doc("db:b", "domain: [b")}, nil)
	expectRules(t, r, 4)
	if got := refused(s); got != "db:b+" {
		t.Errorf("refused %q", got)
	}
	// It stays while others come and go, and goes with its name.
	s.SetDocuments([]rulefile.File{doc("db:b", "domain: [b"), doc("db:d", ruleText("d", 1))}, nil)
	expectRules(t, r, 5)
	s.SetDocuments([]rulefile.File{doc("db:b", ruleText("b", 2))}, nil)
	expectRules(t, r, 3)
	if got := refused(s); got != "" {
		t.Errorf("refused %q", got)
	}
	s.SetDocuments([]rulefile.File{doc("db:d", ruleText("d", 1))}, nil)
	expectRules(t, r, 2)
}

// Files go before documents: what the documents say never takes rules of files away.
func TestDocumentsWithADomainOfOthers(t *testing.T) {
	path := t.TempDir() + "/a.yaml"
	write(t, path, ruleText("a", 2))
	docs := []rulefile.File{doc("0", ruleText("a", 3)), doc("db:b", ruleText("b", 1)), doc("db:c", ruleText("b", 5))}
	s, r := loaded(t, Options{Path: path})
	s.SetDocuments(docs, nil)
	expectRules(t, r, 3)
	if got := refused(s); got != "0 db:c" {
		t.Errorf("refused %q", got)
	}
	if err := s.Status().Refused[0].Err; !strings.Contains(err.Error(), "the rule files have domain a already; hint: --merge-domains") {
		t.Errorf("%v", err)
	}
	// A file that takes over the domain of a document displaces it.
	write(t, path, ruleText("b", 2)+"\n")
	s.o.AllowDrop = true
	s.check(false)
	expectRules(t, r, 5) // b of the file, a of "0"
	if got := refused(s); got != "db:b db:c" {
		t.Errorf("refused %q", got)
	}

	merged, r := loaded(t, Options{Path: path, Rules: rulefile.Options{MergeDomains: true}})
	merged.SetDocuments([]rulefile.File{docs[0], doc("db:b", strings.ReplaceAll(ruleText("b", 4), "{key: k", "{key: q"))}, nil)
	expectRules(t, r, 9)
	if got := refused(merged); got != "" {
		t.Errorf("refused %q", got)
	}
}

// With domains merged, documents may be at odds in ways that errors lay at the door of
// a file: then those documents go that cannot stand beside what is before them.
func TestDocumentsAtOddsWithFiles(t *testing.T) {
	path := t.TempDir() + "/z.yaml"
	write(t, path, "match: leaf\n"+ruleText("a", 2))
	s, r := loaded(t, Options{Path: path, Rules: rulefile.Options{MergeDomains: true}})
	s.SetDocuments([]rulefile.File{
		doc("!a", "match: path\n"+ruleText("a", 3)), // its name is read before the file
		doc("!b", ruleText("b", 1)),
		doc("~c", "match: path\n"+ruleText("a", 3)),
	}, nil)
	expectRules(t, r, 3)
	if got := refused(s); got != "!a ~c" {
		t.Errorf("refused %q: %v", got, s.Status().Refused)
	}
}

func TestDocumentsAreBounded(t *testing.T) {
	s, r := loaded(t, Options{})
	docs := make([]rulefile.File, rulefile.MaxFiles+2)
	for i := range docs {
		docs[i] = doc(fmt.Sprintf("db:%05d", i), "domain: d"+fmt.Sprint(i)+"\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]")
	}
	s.SetDocuments(docs, nil)
	expectRules(t, r, rulefile.MaxFiles)
	if got := refused(s); got != "db:10000 db:10001" {
		t.Errorf("refused %q", got)
	}
	if st := s.Status(); !slices.ContainsFunc(st.Refused, func(r RefusedDocument) bool {
		return strings.Contains(r.String(), "more than 10000 files and documents")
	}) {
		t.Errorf("%v", st.Refused[0].String())
	}
}

// What is tried changes nothing, and must leave the others alone.
func TestTryADocument(t *testing.T) {
	path := t.TempDir() + "/a.yaml"
	write(t, path, ruleText("a", 2))
	s, r := loaded(t, Options{Path: path})
	s.SetDocuments([]rulefile.File{doc("db:b", ruleText("b", 3)), doc("db:x", "oops")}, nil)
	for _, tt := range []struct {
		doc  rulefile.File
		want string // of the error; or else
		n    int    // rules
	}{
		{doc("db:c", ruleText("c", 2)), "", 7},
		{doc("db:b", ruleText("b", 1)), "", 3},
		{doc("db:b", ""), "", 2},
		{doc("db:c", "domain: [c"), "db:c:2", 0},
		{doc("db:c", ruleText("a", 1)), "the rule files have domain a already", 0},
		{doc("db:a", ruleText("b", 1)), "db:b has domain b already", 0},
	} {
		set, err := s.Try(tt.doc)
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s %q: %v, want %q", tt.doc.Name, tt.doc.Data, err, tt.want)
			}
		} else if err != nil || set.NumRules() != tt.n {
			t.Errorf("%s %q: %v, want %d rules", tt.doc.Name, tt.doc.Data, err, tt.n)
		}
	}
	expectRules(t, r, 5)
	expectKinds(t, r, "loaded, joined, document refused")
}

// Whatever comes and goes, what is in force is what a plain model says: in order, each
// document that reads well and whose domain is free, or else its text before.
func TestDocumentsMatchAModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s, _ := loaded(t, Options{})
	inForce := map[string]string{} // domain by document
	for range 300 {
		var docs []rulefile.File
		asked := map[string]string{} // domain by document, "" for a bad one
		for i := range 5 {
			name := fmt.Sprintf("db:%d", i)
			switch n := random.IntN(6); n {
			case 0: // not there
			case 1:
				docs, asked[name] = append(docs, doc(name, "oops")), ""
			default:
				domain := string(rune('a' + n - 2))
				docs, asked[name] = append(docs, doc(name, ruleText(domain, 1))), domain
			}
		}
		s.SetDocuments(docs, nil)
		before, taken := inForce, map[string]bool{}
		inForce = map[string]string{}
		var refusals []string
		for _, d := range docs {
			for _, domain := range []string{asked[d.Name], before[d.Name]} {
				if domain != "" && !taken[domain] {
					inForce[d.Name], taken[domain] = domain, true
					break
				}
			}
			if inForce[d.Name] == "" {
				refusals = append(refusals, d.Name)
			} else if inForce[d.Name] != asked[d.Name] {
				refusals = append(refusals, d.Name+"+")
			}
		}
		if got, want := refused(s), strings.Join(refusals, " "); got != want {
			t.Fatalf("refused %q, want %q; asked for %v after %v", got, want, asked, before)
		}
		domains := slices.Sorted(maps.Keys(taken))
		if got := s.mu.set.Domains(); !slices.Equal(got, domains) {
			t.Fatalf("domains %q, want %q", got, domains)
		}
	}
}
