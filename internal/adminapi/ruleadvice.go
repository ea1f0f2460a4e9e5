package adminapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/advice"
	"github.com/headgate/headgate/internal/recommend"
	"github.com/headgate/headgate/internal/replay"
	"github.com/headgate/headgate/internal/rulereview"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/candidates"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// maxAdviceBody bounds the body of a question for a recommendation in bytes, and maxAdvisedRule the id in it.
const (
	maxAdviceBody  = 8 << 10
	maxAdvisedRule = 4 << 10
)

// ruleAdvice recommends limits by what nodes remember, as headgate recommend does by what was recorded.
type ruleAdvice struct{ ruleDrafts }

func (d ruleAdvice) routes() []route {
	return []route{{
		method: http.MethodPost, path: "rules/recommend", scope: Admin, local: true, serve: d.recommend, id: "recommendLimits", summary: "Recommend limits for a rule, and change nothing",
		about: "It is what headgate recommend says of the events of the last hour that nodes remember, 20,000 at most. " +
			"With it comes the text of the document or rule file, with the recommended limits as a candidate.",
		body:    &payload{kinds: jsonOnly, most: maxAdviceBody, of: adviceBody{}, about: "The rule, and what its limits shall be like."},
		answers: []reply{ok(adviceView{}, "What is recommended."), noSuch},
	}}
}

// adviceBody asks for a recommendation.
type adviceBody struct {
	// Rule is the id of a rule in force.
	Rule string `json:"rule"`
	// HeadRoom and MayHit are those of recommend.Wish; nil: as recommend.DefaultWish has them.
	HeadRoom *int64 `json:"head_room_thousandths,omitempty"`
	MayHit   *int64 `json:"may_hit_thousandths_of_percent,omitempty"`
	// Partial goes on where events lack something.
	Partial bool `json:"partial,omitempty"`
}

// adviceView is what is recommended.
type adviceView struct {
	// Unknown says why nothing can be told: then there is nothing besides but Nodes, Cut and Lacking. Lacking is that events
	// lack something, so that Partial would help.
	Unknown string `json:"unknown,omitempty"`
	Lacking bool   `json:"lacking,omitempty"`
	// Nodes are those whose events were asked for, and Cut says that they remember more.
	Nodes []rulereview.EffectNode `json:"nodes"`
	Cut   bool                    `json:"cut,omitempty"`
	// Requests are those that ask for hits, from From to Until.
	Requests int64     `json:"requests"`
	From     time.Time `json:"from,omitzero"`
	Until    time.Time `json:"until,omitzero"`
	recommend.Report
	// Notes say what cannot be told, or what numbers do not say.
	Notes []string `json:"notes"`
	// Draft is the text with the candidate. NoDraft says why there is none; "" without Draft: no limit should be another one.
	Draft   *adviceDraft `json:"draft,omitempty"`
	NoDraft string       `json:"no_draft,omitempty"`
}

// adviceDraft is a text with a candidate in it.
type adviceDraft struct {
	// Document or File is what the text is of.
	Document string `json:"document,omitempty"`
	File     string `json:"file,omitempty"`
	// Version is that of the document that the text was made from.
	Version int64  `json:"version,omitempty"`
	Text    string `json:"text"`
}

// read checks the body of a question.
func (b *adviceBody) read(data []byte) (w recommend.Wish, bad *problem) {
	if bad := decodeBody(data, b); bad != nil {
		return w, bad
	}
	if b.Rule == "" || len(b.Rule) > maxAdvisedRule {
		return w, badField(http.StatusUnprocessableEntity, "rule", "not the id of a rule; hint: GET rules lists them")
	}
	w = recommend.DefaultWish
	if b.HeadRoom != nil {
		w.HeadRoom = *b.HeadRoom
		if w.Check() != nil {
			return w, badField(http.StatusUnprocessableEntity, "head_room_thousandths", "out of range; hint: from 0 to %d", recommend.MaxHeadRoom)
		}
	}
	if b.MayHit != nil {
		w.MayHit = *b.MayHit
		if w.Check() != nil {
			return w, badField(http.StatusUnprocessableEntity, "may_hit_thousandths_of_percent", "out of range; hint: from 0 to %d", recommend.MaxMayHit)
		}
	}
	return w, nil
}

// recommend answers what is recommended for the limits of a rule.
func (d ruleAdvice) recommend(c *call) (*answer, error) {
	var b adviceBody
	wish, bad := b.read(c.body)
	if bad != nil {
		return nil, bad
	}
	if d.Drafts == nil || d.Limiter == nil || d.Watch.Events == nil {
		return nil, errNotShown
	}
	done, bad := d.turn(c)
	if bad != nil {
		return nil, bad
	}
	defer done()
	set := d.Limiter.Rules()
	rule := set.Rule(b.Rule)
	if rule == nil {
		return nil, fail(http.StatusNotFound, "there is no rule of that id in force")
	}
	v := adviceView{Nodes: []rulereview.EffectNode{}, Notes: []string{}, Report: recommend.Report{HeadRoom: wish.HeadRoom, MayHit: wish.MayHit, Rows: []recommend.Row{}}}
	o := advice.Options{Rules: []string{rule.ID}, Wish: wish, Source: replay.Options{Candidate: set, Tenants: d.tenants(), Window: replay.DefaultWindow, Partial: b.Partial}}
	result, err := d.advise(c, &v, o)
	if err != nil {
		v.unknown(err)
		return jsonAnswer(http.StatusOK, v)
	}
	v.tell(result)
	if list := result.Wanted(); len(list) > 0 {
		if err := d.draft(c, &v, rule, list[0]); err != nil {
			return nil, err
		}
	}
	return jsonAnswer(http.StatusOK, v)
}

// advise recommends by what nodes remember, and notes in v which nodes these are.
func (d ruleAdvice) advise(c *call, v *adviceView, o advice.Options) (*advice.Result, error) {
	remembered := d.remembered(c) // which waits for other nodes
	ctx := c.within(effectTimeout)
	recalled, err := remembered.Recall(ctx)
	v.Nodes, v.Cut = append(v.Nodes, recalled.Nodes...), recalled.Cut
	if err != nil {
		return nil, err
	}
	o.Source.Inputs = []replay.Input{recalled.Input}
	result, err := advice.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	return result, result.Enough()
}

// unknown says why nothing can be told.
func (v *adviceView) unknown(err error) {
	var lack *replay.LackError
	switch {
	case errors.As(err, &lack):
		v.Unknown, _, _ = strings.Cut(lack.Error(), "; hint: ")
		v.Lacking = true
	case errors.Is(err, context.DeadlineExceeded):
		v.Unknown = "the requests could not be asked about in time"
	default:
		v.Unknown = err.Error()
	}
}

// tell fills in what is recommended.
func (v *adviceView) tell(r *advice.Result) {
	v.Requests, v.From, v.Until, v.Report = r.Requests, r.From, r.Until, r.Report
	for i := range v.Rows {
		for _, note := range v.Rows[i].Notes(v.MayHit) {
			v.Notes = append(v.Notes, v.Rows[i].Limit+": "+note)
		}
	}
	v.Notes = append(v.Notes, r.Notes...)
}

// draft writes a candidate into the text that a rule stands in.
func (d ruleAdvice) draft(c *call, v *adviceView, rule *rules.Rule, wanted candidates.Wanted) error {
	draft := adviceDraft{File: rule.File}
	files := d.Drafts.Files()
	if name, stored := d.Drafts.DocumentOf(rule.File); stored {
		doc, err := d.stored(c, name)
		if err != nil {
			return err
		}
		draft = adviceDraft{Document: name, Version: doc.Version}
		files = []rulefile.File{{Name: name, Data: []byte(doc.Text)}}
	}
	options := d.Drafts.FileOptions()
	set, err := rulefile.Load(files, options)
	if err != nil {
		v.NoDraft = "what the rule stands in cannot be loaded by itself; hint: write the candidate by hand"
		return nil
	}
	written, refused := candidates.Write(files, options, set, []candidates.Wanted{wanted})
	if len(refused) > 0 {
		v.NoDraft = refused[0].Reason
		return nil
	}
	for i := range written {
		if written[i].Name == draft.Document+draft.File {
			draft.Text = string(written[i].Data)
		}
	}
	v.Draft = &draft
	return nil
}

// stored returns a document of the database.
func (d ruleAdvice) stored(c *call, name string) (sqltenant.Document, error) {
	db, bad := d.reachAccounts()
	if bad != nil {
		return sqltenant.Document{}, bad
	}
	return db.Document(c.context(), sqltenant.RulesDocument, name)
}
