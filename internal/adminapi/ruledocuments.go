package adminapi

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/lint"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// ruleDocuments are the documents of rules that the database keeps.
type ruleDocuments struct{ *Options }

func (d ruleDocuments) routes() []route {
	const path = "rules/documents/{document}"
	return []route{
		{
			method: http.MethodGet, path: "rules/documents", scope: Read, serve: d.list, id: "listRuleDocuments", summary: "List the documents of rules",
			query: page, answers: []reply{ok(documentsPage{}, "A page.")},
		},
		{
			method: http.MethodGet, path: path, scope: Read, serve: ofDocument(d.get), id: "getRuleDocument", summary: "Show a document of rules, as it was written",
			answers: []reply{text(yamlType, "The text.").tagged(), noSuch, unprocessable},
		},
		{
			method: http.MethodPut, path: path, scope: Admin, conditions: changeable, serve: ofDocument(d.put), id: "putRuleDocument", summary: "Make or change a document of rules",
			about:   "It counts beside the rule files, on every node, and is checked together with what is in force here.",
			query:   []parameter{{reasonField, "Why, for the log of changes: one line of text.", schema{"type": "string", "maxLength": sqltenant.MaxReason}}},
			body:    &payload{kinds: yamlText, most: sqltenant.MaxDocument, about: "Rules, as a rule file has them."},
			answers: []reply{ok(putView{}, "The document as it is now.").tagged(), created(putView{}, "The document, which was not there.").tagged()},
		},
		{
			method: http.MethodDelete, path: path, scope: Admin, conditions: removable, serve: ofDocument(d.remove), id: "deleteRuleDocument", summary: "Take a document of rules out",
			answers: []reply{deleted("It is not there any more."), noSuch},
		},
	}
}

// documentName is what the name of a document of rules may be.
var documentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// documentView is what is told of a document, without its text.
type documentView struct {
	Name      string    `json:"name"`
	Bytes     int       `json:"bytes"`
	Version   int64     `json:"version"`
	UpdatedAt time.Time `json:"updated_at"`
	UpdatedBy string    `json:"updated_by"`
}

func documentViewOf(d *sqltenant.Document) documentView {
	return documentView{d.Name, len(d.Text), d.Version, d.UpdatedAt, d.UpdatedBy}
}

type documentsPage struct {
	Documents  []documentView `json:"documents"`
	NextCursor string         `json:"next_cursor,omitempty"`
}

// list answers with a page of documents of rules.
func (d ruleDocuments) list(c *call) (*answer, error) {
	all, err := c.db.Documents(c.context(), sqltenant.RulesDocument)
	if err != nil {
		return nil, err
	}
	page, next, bad := window(c, all, func(d *sqltenant.Document) string { return d.Name }, documentViewOf)
	if bad != nil {
		return nil, bad
	}
	return jsonAnswer(http.StatusOK, documentsPage{page, next})
}

// ofDocument serves what is about the document {document}.
func ofDocument(serve func(*call, string) (*answer, error)) func(*call) (*answer, error) {
	return func(c *call) (*answer, error) {
		name := c.param("document")
		if !documentName.MatchString(name) {
			return nil, badField(http.StatusUnprocessableEntity, "document", "not a name; hint: 1 to 100 letters, digits, '-', '_' and '.', a letter or digit first")
		}
		return serve(c, name)
	}
}

// get answers with the text of a document of rules.
func (d ruleDocuments) get(c *call, name string) (*answer, error) {
	return c.textOf(sqltenant.RulesDocument, name)
}

// putView is a document that was changed.
type putView struct {
	documentView
	// Warnings are what is probably not meant.
	Warnings []fieldError `json:"warnings,omitempty"`
}

// put makes a document of rules what the body says.
func (d ruleDocuments) put(c *call, name string) (*answer, error) {
	if bad := checkText(c.body); bad != nil {
		return nil, bad
	}
	if reason := c.request.URL.Query().Get(reasonField); len(reason) > sqltenant.MaxReason || !printable(reason) {
		return nil, badField(http.StatusUnprocessableEntity, reasonField, "not printable text of at most %d bytes in one line", sqltenant.MaxReason)
	}
	warnings, bad := d.check(name, string(c.body))
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

// remove takes a document of rules out.
func (d ruleDocuments) remove(c *call, name string) (*answer, error) {
	if _, bad := d.check(name, ""); bad != nil {
		return nil, bad
	}
	if _, _, err := c.putDocument(sqltenant.RulesDocument, name, ""); err != nil {
		return nil, err
	}
	return gone(), nil
}

// check says what is wrong with a document, and what is odd in it.
func (d ruleDocuments) check(name, text string) ([]fieldError, *problem) {
	check := d.CheckRules
	if check == nil {
		check = checkAlone
	}
	warnings, err := check(name, text)
	if err == nil {
		return diagnosed(name, warnings[:min(len(warnings), maxFieldErrors)]), nil
	}
	if list, ok := errors.AsType[rules.Errors](err); ok && len(list) > 0 {
		return nil, badFields(http.StatusUnprocessableEntity, diagnosed(name, list))
	}
	return nil, badField(http.StatusUnprocessableEntity, wholeBody, "%v", err)
}

// checkAlone is CheckRules where nothing else is known.
func checkAlone(name, text string) ([]rules.Diagnostic, error) {
	if text == "" {
		return nil, nil
	}
	set, err := rulefile.Load([]rulefile.File{{Name: name, Data: []byte(text)}}, rulefile.Options{})
	if err != nil {
		return nil, err
	}
	return lint.Check(set), nil
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
