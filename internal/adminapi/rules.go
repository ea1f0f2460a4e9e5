package adminapi

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// documentName is what the name of a document of rules may be.
var documentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// ruleView is a rule in force on this node.
type ruleView struct {
	ID      string `json:"id"`
	Domain  string `json:"domain"`
	Summary string `json:"summary"`
	// Source is file, document or row; File and Line say where there.
	Source string `json:"source"`
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
}

type rulesPage struct {
	// Version is that of all rules in force on this node.
	Version    string     `json:"version"`
	Rules      []ruleView `json:"rules"`
	NextCursor string     `json:"next_cursor,omitempty"`
}

// rules answers with the rules in force.
func (c *call) rules() (*answer, error) {
	if c.options.Limiter == nil {
		return nil, errNoLimiter
	}
	p := rulesPage{Rules: []ruleView{}}
	set := c.options.Limiter.Rules()
	if set == nil {
		return jsonAnswer(http.StatusOK, p)
	}
	p.Version = set.Version()
	list := set.Rules()
	slices.SortFunc(list, func(a, b *rules.Rule) int { return strings.Compare(a.ID, b.ID) })
	page, next, bad := window(c, list, func(r **rules.Rule) string { return (*r).ID })
	if bad != nil {
		return nil, bad
	}
	p.NextCursor = next
	for _, r := range page {
		source := "file"
		if c.options.RuleSource != nil {
			source = c.options.RuleSource(r.File)
		}
		p.Rules = append(p.Rules, ruleView{r.ID, r.Domain, r.Summary(), source, r.File, r.Line})
	}
	return jsonAnswer(http.StatusOK, p)
}

type documentsPage struct {
	Documents  []documentView `json:"documents"`
	NextCursor string         `json:"next_cursor,omitempty"`
}

// ruleDocuments answers with a page of documents of rules.
func (c *call) ruleDocuments() (*answer, error) {
	ctx, cancel := c.context()
	defer cancel()
	all, err := c.accounts.Documents(ctx, sqltenant.RulesDocument)
	if err != nil {
		return nil, err
	}
	page, next, bad := window(c, all, func(d *sqltenant.Document) string { return d.Name })
	if bad != nil {
		return nil, bad
	}
	p := documentsPage{Documents: make([]documentView, len(page)), NextCursor: next}
	for i := range page {
		p.Documents[i] = documentViewOf(&page[i])
	}
	return jsonAnswer(http.StatusOK, p)
}

// ruleDocumentName reads {document}.
func (c *call) ruleDocumentName() (string, *problem) {
	name := c.path["document"]
	if !documentName.MatchString(name) {
		return "", badField(http.StatusUnprocessableEntity, "document", "not a name; hint: 1 to 100 letters, digits, '-', '_' and '.', a letter or digit first")
	}
	return name, nil
}

// ruleDocument answers with the text of a document of rules.
func (c *call) ruleDocument() (*answer, error) {
	name, bad := c.ruleDocumentName()
	if bad != nil {
		return nil, bad
	}
	return c.textOf(sqltenant.RulesDocument, name)
}

// putView is a document that was changed.
type putView struct {
	documentView
	// Warnings are what is probably not meant.
	Warnings []fieldError `json:"warnings,omitempty"`
}

// putRuleDocument makes a document of rules what the body says.
func (c *call) putRuleDocument() (*answer, error) {
	name, bad := c.ruleDocumentName()
	if bad != nil {
		return nil, bad
	}
	if bad := checkText(c.body); bad != nil {
		return nil, bad
	}
	warnings, bad := c.checkRules(name, string(c.body))
	if bad != nil {
		return nil, bad
	}
	after, before, err := c.putDocument(sqltenant.RulesDocument, name, string(c.body))
	if err != nil {
		return nil, err
	}
	return versioned(statusOf(before.Version), putView{documentViewOf(&after), warnings}, after.Version)
}

// checkText refuses a text that the database cannot hold, and one that says nothing.
func checkText(body []byte) *problem {
	switch {
	case !utf8.Valid(body) || strings.ContainsRune(string(body), 0):
		return badField(http.StatusUnprocessableEntity, wholeBody, "not UTF-8, or with a NUL")
	case strings.TrimSpace(string(body)) == "":
		return badField(http.StatusUnprocessableEntity, wholeBody, "nothing in it; hint: DELETE takes it out")
	}
	return nil
}

// removeRuleDocument takes a document of rules out.
func (c *call) removeRuleDocument() (*answer, error) {
	name, bad := c.ruleDocumentName()
	if bad != nil {
		return nil, bad
	}
	if _, bad := c.checkRules(name, ""); bad != nil {
		return nil, bad
	}
	if _, _, err := c.putDocument(sqltenant.RulesDocument, name, ""); err != nil {
		return nil, err
	}
	return gone(), nil
}

// checkRules says what is wrong with a document, and what is odd in it.
func (c *call) checkRules(name, text string) ([]fieldError, *problem) {
	check := c.options.CheckRules
	if check == nil {
		check = checkAlone
	}
	warnings, err := check(name, text)
	if err == nil {
		return diagnosed(name, warnings[:min(len(warnings), maxFieldErrors)]), nil
	}
	var list rules.Errors
	if errors.As(err, &list) && len(list) > 0 {
		return nil, badFields(http.StatusUnprocessableEntity, diagnosed(name, list))
	}
	return nil, badField(http.StatusUnprocessableEntity, wholeBody, "%v", err)
}

// checkAlone is CheckRules where nothing else is known.
func checkAlone(name, text string) ([]rules.Diagnostic, error) {
	if text == "" {
		return nil, nil
	}
	set, err := rules.Load([]rules.File{{Name: name, Data: []byte(text)}}, rules.Options{})
	if err != nil {
		return nil, err
	}
	return rules.Lint(set), nil
}

// diagnosed tells diagnostics of a document and, with their names, of other files.
func diagnosed(name string, list []rules.Diagnostic) []fieldError {
	var out []fieldError
	for _, d := range list {
		if d.File == name {
			d.File = ""
		}
		out = append(out, fieldError{Line: d.Line, Column: d.Column, File: d.File, Field: wholeBody, Message: d.Message, Hint: d.Hint})
	}
	return out
}

// yamlError is the error of a text that is read by yamlfile.
func yamlError(err error) *problem {
	e := fieldError{Field: wholeBody, Message: err.Error()}
	var at *yamlfile.Error
	if errors.As(err, &at) {
		e.Line, e.Message = at.Line, at.Err.Error()
	}
	e.Message, e.Hint = hinted(e.Message)
	return badFields(http.StatusUnprocessableEntity, []fieldError{e})
}

// known reports whether there is a rule in force with that ID, nil where that is not
// known.
func (c *call) known(id string) *bool {
	if c.options.Limiter == nil {
		return nil
	}
	set := c.options.Limiter.Rules()
	known := set != nil && slices.ContainsFunc(set.Rules(), func(r *rules.Rule) bool { return r.ID == id })
	return &known
}

// candidateView says how the candidate limits of a rule compare with its main ones.
type candidateView struct {
	Rule      string `json:"rule"`
	Domain    string `json:"domain"`
	Limits    string `json:"limits"`
	Candidate string `json:"candidate"`
	// Percent and Tenants say for whom the candidate is enforced.
	Percent int      `json:"percent,omitempty"`
	Tenants []string `json:"tenants,omitempty"`
	// OverSeconds is the time up to now that the counts are of.
	OverSeconds     float64    `json:"over_seconds"`
	Decided         int64      `json:"decided"`
	Denied          int64      `json:"denied"`
	CandidateDenied int64      `json:"candidate_denied"`
	Added           int64      `json:"added"`
	Avoided         int64      `json:"avoided"`
	AddedPercent    float64    `json:"added_percent"`
	RolledBackAt    *time.Time `json:"rolled_back_at,omitempty"`
}

type candidatesPage struct {
	Candidates []candidateView `json:"candidates"`
	NextCursor string          `json:"next_cursor,omitempty"`
}

// candidates answers with what was seen of candidate limits.
func (c *call) candidates() (*answer, error) {
	var list []headgate.CandidateReport
	if c.options.Candidates != nil {
		list = c.options.Candidates()
	}
	slices.SortFunc(list, func(a, b headgate.CandidateReport) int { return strings.Compare(a.Rule, b.Rule) })
	page, next, bad := window(c, list, func(r *headgate.CandidateReport) string { return r.Rule })
	if bad != nil {
		return nil, bad
	}
	p := candidatesPage{Candidates: make([]candidateView, len(page)), NextCursor: next}
	for i := range page {
		p.Candidates[i] = candidateViewOf(&page[i])
	}
	return jsonAnswer(http.StatusOK, p)
}

func candidateViewOf(r *headgate.CandidateReport) candidateView {
	v := candidateView{
		Rule: r.Rule, Domain: r.Domain, Limits: r.Limits, Candidate: r.Candidate, Percent: r.Percent, OverSeconds: r.Over.Seconds(),
		Decided: r.Decided, Denied: r.Denied, CandidateDenied: r.CandidateDenied, Added: r.Added, Avoided: r.Avoided, AddedPercent: r.AddedPercent,
	}
	for _, t := range r.Tenants {
		v.Tenants = append(v.Tenants, t.Key+":"+t.Value)
	}
	if !r.RolledBack.IsZero() {
		at := r.RolledBack.UTC()
		v.RolledBackAt = &at
	}
	return v
}
