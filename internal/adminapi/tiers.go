package adminapi

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/tierfile"
	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// tiers are what tenants of each tier may use.
type tiers struct{ *Options }

func (t tiers) routes() []route {
	return []route{
		{
			method: http.MethodGet, path: "tiers", scope: Read, local: true, serve: t.inForce, id: "listTiers", summary: "List the tiers",
			answers: []reply{ok(tiersView{}, "The tiers in force, as this process has read them.")},
		},
		{
			method: http.MethodPut, path: "tiers", scope: Admin, conditions: changeable, serve: t.put, id: "putTiers", summary: "Change the tiers",
			about:   "They take the place of those of the file, on every node. A tier that accounts have is not dropped unless that is asked for.",
			query:   []parameter{{"drop_tiers", "Drop tiers though accounts have them: those have the fallback tier then.", schema{"type": "boolean", "default": false}}},
			body:    &payload{kinds: append(yamlText[:len(yamlText):len(yamlText)], jsonType), most: sqltenant.MaxDocument, about: "All tiers, as the file of tiers has them."},
			answers: []reply{ok(tiersView{}, "The tiers as they are now.").tagged(), created(tiersView{}, "The tiers, which were those of the file.").tagged()},
		},
		{
			method: http.MethodDelete, path: "tiers", scope: Admin, conditions: removable, serve: t.remove, id: "deleteTiers", summary: "Go back to the tiers of the file",
			answers: []reply{deleted("Those of the file count."), noSuch},
		},
		{
			method: http.MethodGet, path: "tiers/document", scope: Read, serve: t.document, id: "getTiersDocument", summary: "Show the tiers that were put here, as they were written",
			answers: []reply{text(yamlType, "The text.").tagged(), noSuch},
		},
	}
}

// tiersView is the set of tiers as it is answered.
type tiersView struct {
	Fallback string     `json:"fallback"`
	Tiers    []tierView `json:"tiers"`
}

type tierView struct {
	Name string `json:"name"`
	// Quotas are that of default first, then those of other descriptors in order.
	Quotas []quotaOfView `json:"quotas"`
}

// inForce answers with the tiers in force.
func (t tiers) inForce(c *call) (*answer, error) {
	if t.Tiers == nil {
		return nil, errNoDatabase
	}
	return jsonAnswer(http.StatusOK, tiersViewOf(t.Tiers()))
}

func tiersViewOf(set *tenant.Tiers) tiersView {
	v := tiersView{Fallback: set.Fallback(), Tiers: []tierView{}}
	for _, name := range set.Names() {
		t := tierView{Name: name, Quotas: []quotaOfView{}}
		for _, text := range slices.Sorted(maps.Keys(set.Tier(name).Quotas)) { // "" is the first
			t.Quotas = append(t.Quotas, quotaOf(text, set.Tier(name).Quotas[text], tenant.FromTier))
		}
		v.Tiers = append(v.Tiers, t)
	}
	return v
}

// document answers with the text of the tiers of the database.
func (t tiers) document(c *call) (*answer, error) {
	return c.textOf(sqltenant.TiersDocument, sqltenant.DefaultName)
}

// put makes the tiers what the body says, in place of those of the file.
func (t tiers) put(c *call) (*answer, error) {
	if bad := checkText(c.body); bad != nil {
		return nil, bad
	}
	set, err := tierfile.Parse(c.body)
	if err != nil {
		return nil, yamlError(err)
	}
	for where, err := range set.Unfit(c.unfit) {
		return nil, badField(http.StatusUnprocessableEntity, "tiers", "%s: %v", where, err)
	}
	if name, err := quotas.CheckNewTiers(set); err != nil {
		return nil, badField(http.StatusUnprocessableEntity, "tiers."+name, "a descriptor: %v", err)
	}
	if err := t.checkDropped(c, set); err != nil {
		return nil, err
	}
	after, before, err := c.putDocument(sqltenant.TiersDocument, sqltenant.DefaultName, string(c.body))
	if err != nil {
		return nil, err
	}
	return versioned(statusOf(before.Version), tiersViewOf(set), after.Version)
}

// checkDropped refuses tiers without one that is in force and that accounts have, because
// those would have the fallback tier, unless that is asked for.
func (t tiers) checkDropped(c *call, next *tenant.Tiers) error {
	asked := c.flag("drop_tiers")
	if c.bad != nil {
		return c.bad
	}
	for _, name := range t.Tiers().Names() {
		if asked || next.Has(name) {
			continue
		}
		if has, err := c.anyoneHas(name); err != nil {
			return err
		} else if has {
			return badField(http.StatusUnprocessableEntity, "tiers."+name, "missing, and accounts have it: they would have the tier %s; hint: give them another one first, or ask with ?drop_tiers=true", next.Fallback())
		}
	}
	return nil
}

// anyoneHas reports whether an account has a tier that is not the fallback now. Those
// that will have it are not asked for.
func (c *call) anyoneHas(tier string) (bool, error) {
	records, err := c.db.Find(c.context(), sqltenant.ListOptions{N: 1, Tier: tier, At: c.now})
	return len(records) > 0, err
}

// remove leaves the tiers to the file.
func (t tiers) remove(c *call) (*answer, error) {
	if _, _, err := c.putDocument(sqltenant.TiersDocument, sqltenant.DefaultName, ""); err != nil {
		return nil, err
	}
	return gone(), nil
}

// hinted splits what is wrong from what to do about it.
func hinted(text string) (message, hint string) {
	message, hint, _ = strings.Cut(text, "; hint: ")
	return message, hint
}

// yamlError is the error of a text that is read by yamlfile.
func yamlError(err error) *problem {
	e := fieldError{Field: wholeBody, Message: err.Error()}
	if at, ok := errors.AsType[*yamlfile.Error](err); ok {
		e.Line, e.Message = at.Line, at.Err.Error()
	}
	e.Message, e.Hint = hinted(e.Message)
	return badFields(http.StatusUnprocessableEntity, []fieldError{e})
}
