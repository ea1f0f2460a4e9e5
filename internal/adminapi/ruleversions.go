package adminapi

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/tenant/sqltenant"
)

// ruleVersions are what documents of rules were before.
type ruleVersions struct{}

func (v ruleVersions) routes() []route {
	const path = "rules/documents/{document}/versions"
	return []route{
		{
			method: http.MethodGet, path: path, scope: Read, serve: ofDocument(v.list), id: "listRuleVersions", summary: "List what a document of rules was made, by whom and why",
			about: "The latest first. They are in the log of changes; what is further back than its latest 100,000 changes is not found.",
			query: []parameter{
				{"limit", "How many at most.", schema{"type": "integer", "minimum": 1, "maximum": sqltenant.MaxDocumentHistory, "default": 20}},
				{"before", "The version before which to begin: next_before of the page before.", schema{"type": "integer", "minimum": 0, "default": 0}},
			},
			answers: []reply{ok(versionsPage{}, "A page; none where there never was such a document."), unprocessable},
		},
		{
			method: http.MethodGet, path: path + "/{version}", scope: Read, serve: ofDocument(v.get), id: "getRuleVersion", summary: "Show what a document of rules was",
			answers: []reply{text(yamlType, "The text."), errorReply(http.StatusNotFound, "There is no such version, or it took the document out."), unprocessable},
		},
	}
}

// versionView is a version of a document, without its text.
type versionView struct {
	Version int64     `json:"version"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	Reason  string    `json:"reason,omitempty"`
	// Bytes is the length of the text, 0 where the document was taken out.
	Bytes int `json:"bytes"`
}

type versionsPage struct {
	Versions []versionView `json:"versions"`
	// NextBefore is there when there may be more.
	NextBefore int64 `json:"next_before,omitempty"`
}

// list answers with a page of versions.
func (ruleVersions) list(c *call, name string) (*answer, error) {
	n, before := c.number("limit", 1, sqltenant.MaxDocumentHistory, 20), c.number("before", 0, math.MaxInt64, 0)
	if c.bad != nil {
		return nil, c.bad
	}
	found, err := c.versions(name, before, int(n))
	if err != nil {
		return nil, err
	}
	p := versionsPage{Versions: make([]versionView, len(found))}
	for i := range found {
		f := &found[i]
		p.Versions[i] = versionView{f.Version, f.At, f.Actor, f.Reason, len(f.Text)}
	}
	if len(found) == int(n) {
		p.NextBefore = found[n-1].Version
	}
	return jsonAnswer(http.StatusOK, p)
}

// versions returns versions of a document of rules.
func (c *call) versions(name string, before int64, n int) ([]sqltenant.DocumentVersion, error) {
	return c.db.DocumentHistory(c.context(), sqltenant.RulesDocument, name, before, n)
}

// get answers with the text of a version.
func (ruleVersions) get(c *call, name string) (*answer, error) {
	version, err := strconv.ParseInt(c.param("version"), 10, 64)
	if err != nil || version < 1 || version == math.MaxInt64 {
		return nil, badField(http.StatusUnprocessableEntity, "version", "not a version, which is a whole number from 1 on")
	}
	found, err := c.versions(name, version+1, 1)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || found[0].Version != version || found[0].Text == "" {
		return nil, fail(http.StatusNotFound, "there is no text of that version of it")
	}
	return &answer{status: http.StatusOK, header: http.Header{"Content-Type": {yamlType}}, body: []byte(found[0].Text)}, nil
}
