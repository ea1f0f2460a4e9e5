package adminapi

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/headgate/headgate/internal/rulereview"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// Drafts tries texts of rules beside all other rules, and changes nothing.
type Drafts interface {
	// Files returns the rule files in force. Nobody may change their data.
	Files() []rulefile.File
	// FileOptions are those by which the rule files are loaded.
	FileOptions() rulefile.Options
	// DocumentOf returns the name of the document that a rule stands in, by the File of the rule; false where
	// that is none.
	DocumentOf(file string) (name string, stored bool)
	// TryDocument returns the rules that there would be with text as the document of a name, and
	// what is odd in it. The error says why it cannot be; where a text is at fault, it is of type
	// rules.Errors, with name as the File of each Diagnostic of this text.
	TryDocument(name, text string) (set *rules.Set, odd []rules.Diagnostic, err error)
	// TryFile is TryDocument for a rule file.
	TryFile(name, text string) (set *rules.Set, odd []rules.Diagnostic, err error)
}

const (
	// maxReviews bounds the reviews at one time: each reads rules and asks a limiter of its own.
	maxReviews = 1
	// reviewTimeout bounds how long a review waits for its turn, and testTimeout and effectTimeout
	// how long tests and remembered requests may take.
	reviewTimeout = 10 * time.Second
	testTimeout   = 5 * time.Second
	effectTimeout = 5 * time.Second
	// maxReviewBody bounds the body of a review in bytes, as JSON of two texts.
	maxReviewBody = 4 << 20
	// maxDiff bounds the text that says how lines differ, in bytes.
	maxDiff = 256 << 10
)

// ruleDrafts are rules that are not in force.
type ruleDrafts struct {
	*Options
	turns turns
}

func (d ruleDrafts) routes() []route {
	return []route{
		{
			method: http.MethodGet, path: "rules/files", scope: Read, local: true, serve: d.files, id: "listRuleFiles", summary: "List the rule files in force",
			query: page, answers: []reply{ok(filesPage{}, "A page of the rule files of this node."), notHere},
		},
		{
			method: http.MethodGet, path: "rules/files/{file}", scope: Read, local: true, serve: d.file, id: "getRuleFile", summary: "Show a rule file in force, as it was read",
			answers: []reply{text(yamlType, "The text."), noSuch},
		},
		{
			method: http.MethodPost, path: "rules/review", scope: Admin, local: true, serve: d.review, id: "reviewRules", summary: "Say what a text of rules would change, and change nothing",
			about: "The text is tried in the place of a document or of a rule file, beside all other rules of this node. " +
				"The effect is that on requests of the last hour of which nodes remember events, decided anew by the rules in force and by those of the text.",
			body:    &payload{kinds: jsonOnly, most: maxReviewBody, of: reviewBody{}, about: "The text, and what it is to be."},
			answers: []reply{ok(reviewView{}, "What it would change."), notHere},
		},
	}
}

type fileView struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

type filesPage struct {
	Files      []fileView `json:"files"`
	NextCursor string     `json:"next_cursor,omitempty"`
}

// files answers with a page of rule files.
func (d ruleDrafts) files(c *call) (*answer, error) {
	if d.Drafts == nil {
		return nil, errNotShown
	}
	all := d.Drafts.Files()
	slices.SortFunc(all, func(a, b rulefile.File) int { return strings.Compare(a.Name, b.Name) })
	list, next, bad := window(c, all, func(f *rulefile.File) string { return f.Name }, func(f *rulefile.File) fileView { return fileView{f.Name, len(f.Data)} })
	if bad != nil {
		return nil, bad
	}
	return jsonAnswer(http.StatusOK, filesPage{list, next})
}

// file answers with the text of a rule file.
func (d ruleDrafts) file(c *call) (*answer, error) {
	if d.Drafts == nil {
		return nil, errNotShown
	}
	text, there := d.textOf(c.param("file"))
	if !there {
		return nil, fail(http.StatusNotFound, "there is no rule file of that name in force")
	}
	return &answer{status: http.StatusOK, header: http.Header{"Content-Type": {yamlType}}, body: []byte(text)}, nil
}

// textOf returns the text of a rule file in force.
func (d ruleDrafts) textOf(name string) (text string, there bool) {
	for _, f := range d.Drafts.Files() {
		if f.Name == name {
			return string(f.Data), true
		}
	}
	return "", false
}

// reviewBody is the body of a review.
type reviewBody struct {
	// Document or File is what the text is to be.
	Document string `json:"document,omitempty"`
	File     string `json:"file,omitempty"`
	Text     string `json:"text"`
	// Tests are unit tests, as a file of them has them. The rules that they name are not read:
	// they are asked of all rules that there would be.
	Tests string `json:"tests,omitempty"`
}

// reviewView is what a text would change.
type reviewView struct {
	// Problems are why it cannot be in force; with any, nothing else is known but Diff.
	Problems []fieldError `json:"problems"`
	// Warnings are what is probably not meant.
	Warnings []fieldError `json:"warnings"`
	// Changes are what is new for requests.
	Changes *rulereview.Changes `json:"changes,omitempty"`
	// Tests are how its unit tests went; TestProblems are why they cannot be read.
	Tests        *rulereview.Tests `json:"tests,omitempty"`
	TestProblems []fieldError      `json:"test_problems,omitempty"`
	// Effect is what it would have changed of late.
	Effect *rulereview.Effect `json:"effect,omitempty"`
	// Diff says how the lines differ from those that there are, as diff -u does.
	Diff    string `json:"diff"`
	DiffCut bool   `json:"diff_cut,omitempty"`
}

// read checks the body of a review.
func (b *reviewBody) read(data []byte) *problem {
	if bad := decodeBody(data, b); bad != nil {
		return bad
	}
	switch {
	case (b.Document == "") == (b.File == ""):
		return badField(http.StatusUnprocessableEntity, "document", "either the name of a document or that of a file says what the text is to be")
	case b.Document != "" && !documentName.MatchString(b.Document):
		return badField(http.StatusUnprocessableEntity, "document", "not a name; hint: 1 to 100 letters, digits, '-', '_' and '.', a letter or digit first")
	case len(b.Text) > sqltenant.MaxDocument:
		return badField(http.StatusUnprocessableEntity, "text", "%d bytes, more than %d", len(b.Text), sqltenant.MaxDocument)
	case len(b.Tests) > sqltenant.MaxDocument:
		return badField(http.StatusUnprocessableEntity, "tests", "%d bytes, more than %d", len(b.Tests), sqltenant.MaxDocument)
	}
	if bad := checkText([]byte(b.Text)); bad != nil {
		bad.Errors[0].Field = "text"
		return bad
	}
	return nil
}

// review answers what a text would change.
func (d ruleDrafts) review(c *call) (*answer, error) {
	var b reviewBody
	if bad := b.read(c.body); bad != nil {
		return nil, bad
	}
	if d.Drafts == nil || d.Limiter == nil {
		return nil, errNotShown
	}
	done, bad := d.turn(c)
	if bad != nil {
		return nil, bad
	}
	defer done()
	before, err := d.before(c, &b)
	if err != nil {
		return nil, err
	}
	v := reviewView{Problems: []fieldError{}, Warnings: []fieldError{}}
	v.Diff, v.DiffCut = linesOf(b.Document+b.File, before, b.Text)
	try, name := d.Drafts.TryDocument, b.Document
	if b.File != "" {
		try, name = d.Drafts.TryFile, b.File
	}
	set, odd, err := try(name, b.Text)
	if err != nil {
		v.Problems = problemsOf(name, err)
		return jsonAnswer(http.StatusOK, v)
	}
	v.Warnings = append(v.Warnings, diagnosed(name, odd[:min(len(odd), maxFieldErrors)])...)
	d.foresee(c, &b, set, &v)
	return jsonAnswer(http.StatusOK, v)
}

// turn waits for the turn of a review. done ends it.
func (d ruleDrafts) turn(c *call) (done func(), bad *problem) {
	return d.turns.wait(c.within(reviewTimeout), 1, "other rules are being reviewed")
}

// before returns the text that there is, "" for none.
func (d ruleDrafts) before(c *call, b *reviewBody) (string, error) {
	if b.File != "" {
		text, there := d.textOf(b.File)
		if !there {
			return "", badField(http.StatusUnprocessableEntity, "file", "there is no rule file of that name in force")
		}
		return text, nil
	}
	db := c.db
	if db == nil {
		var bad *problem
		if db, bad = d.reachAccounts(); bad != nil {
			return "", bad
		}
	}
	doc, err := db.Document(c.context(), sqltenant.RulesDocument, b.Document)
	return doc.Text, err
}

// foresee fills in what the rules of set would do.
func (d ruleDrafts) foresee(c *call, b *reviewBody, set *rules.Set, v *reviewView) {
	tenants := d.tenants()
	now := d.Limiter.Rules()
	changes := rulereview.Compare(now, set)
	v.Changes = &changes
	if strings.TrimSpace(b.Tests) != "" {
		var err error
		if v.Tests, err = rulereview.Test(c.within(testTimeout), rulefile.File{Name: testsName, Data: []byte(b.Tests)}, set, tenants); err != nil {
			v.TestProblems = problemsOf(testsName, err)
		}
	}
	if d.Watch.Events == nil {
		return
	}
	question := rulereview.Question{Now: now, Next: set, Tenants: tenants, Remembered: d.remembered(c)}
	effect := question.Ask(c.within(effectTimeout))
	v.Effect = &effect
}

// tenants returns what tenants may use, nil for nothing of their own.
func (d ruleDrafts) tenants() *tenant.Snapshot {
	if d.Tenants == nil {
		return nil
	}
	return d.Tenants()
}

// remembered returns what nodes remember of the last hour. This process remembers events.
func (d ruleDrafts) remembered(c *call) rulereview.Remembered {
	r := rulereview.Remembered{At: c.now, Recent: func(cursor string) (view.Events, error) {
		return d.Watch.Events.Recent(view.EventFilter{}, maxEvents, cursor)
	}}
	if d.Watch.Overview != nil {
		r.Node = d.Watch.Overview().Node.Name
	}
	if d.Watch.OtherEvents != nil {
		r.Others = d.Watch.OtherEvents(c.request.Context(), EventsQuestion{Filter: view.EventFilter{Since: c.now.Add(-rulereview.Lookback).UnixMilli()}})
	}
	return r
}

// testsName is what messages call the tests of a review.
const testsName = "tests"

// problemsOf tells why a text cannot be in force.
func problemsOf(name string, err error) []fieldError {
	if list, ok := errors.AsType[rules.Errors](err); ok && len(list) > 0 {
		return diagnosed(name, list[:min(len(list), maxFieldErrors)])
	}
	return []fieldError{{Field: wholeBody, Message: err.Error()}}
}

// linesOf says how the lines of two texts differ, as far as maxDiff.
func linesOf(name, before, after string) (text string, cut bool) {
	all := diff.Diff(name, []byte(before), name, []byte(after))
	if _, rest, found := strings.Cut(string(all), "\n"); found && strings.HasPrefix(string(all), "diff ") {
		all = []byte(rest)
	}
	if len(all) <= maxDiff {
		return string(all), false
	}
	return string(all[:bytes.LastIndexByte(all[:maxDiff], '\n')+1]), true
}
