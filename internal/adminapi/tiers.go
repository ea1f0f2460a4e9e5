package adminapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/tierfile"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

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

// tiers answers with the tiers in force.
func (c *call) tiers() (*answer, error) {
	if c.options.Tiers == nil {
		return nil, errNoDatabase
	}
	return jsonAnswer(http.StatusOK, tiersViewOf(c.options.Tiers()))
}

func tiersViewOf(set *tenant.Tiers) tiersView {
	v := tiersView{Fallback: set.Fallback(), Tiers: []tierView{}}
	for _, name := range set.Names() {
		t := tierView{Name: name, Quotas: []quotaOfView{}}
		var texts []string
		for text := range set.Tier(name).Quotas {
			texts = append(texts, text)
		}
		slices.Sort(texts) // "" is the first
		for _, text := range texts {
			t.Quotas = append(t.Quotas, quotaOf(text, set.Tier(name).Quotas[text], tenant.FromTier))
		}
		v.Tiers = append(v.Tiers, t)
	}
	return v
}

// tiersDocument answers with the text of the tiers of the database.
func (c *call) tiersDocument() (*answer, error) {
	return c.textOf(sqltenant.TiersDocument, sqltenant.DefaultName)
}

// putTiers makes the tiers what the body says, in place of those of the file.
func (c *call) putTiers() (*answer, error) {
	if bad := checkText(c.body); bad != nil {
		return nil, bad
	}
	set, err := tierfile.Parse(c.body)
	if err != nil {
		return nil, yamlError(err)
	}
	for _, name := range set.Names() {
		for text := range set.Tier(name).Quotas {
			if hint := quotas.Deceptive(text); hint != "" {
				return nil, badField(http.StatusUnprocessableEntity, "tiers."+name, "a descriptor: %s", hint)
			}
		}
	}
	if err := c.checkDropped(set); err != nil {
		return nil, err
	}
	after, before, err := c.putDocument(sqltenant.TiersDocument, sqltenant.DefaultName, string(c.body))
	if err != nil {
		return nil, err
	}
	return versioned(statusOf(before.Version), tiersViewOf(set), after.Version)
}

// checkDropped refuses tiers without one that is in force and that accounts have, since
// those would have the fallback tier, unless that is asked for.
func (c *call) checkDropped(next *tenant.Tiers) error {
	asked, bad := c.flag("drop_tiers")
	if bad != nil {
		return bad
	}
	for _, name := range c.options.Tiers().Names() {
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
	ctx, cancel := c.context()
	defer cancel()
	records, err := c.accounts.Find(ctx, sqltenant.ListOptions{N: 1, Tier: tier, At: c.now})
	return len(records) > 0, err
}

// removeTiers leaves the tiers to the file.
func (c *call) removeTiers() (*answer, error) {
	if _, _, err := c.putDocument(sqltenant.TiersDocument, sqltenant.DefaultName, ""); err != nil {
		return nil, err
	}
	return gone(), nil
}

// flag reads a parameter of the query that is true or false, and false when it is not
// there.
func (c *call) flag(name string) (bool, *problem) {
	query := c.request.URL.Query()
	switch text := query.Get(name); {
	case !query.Has(name) || text == "false":
		return false, nil
	case text == "true":
		return true, nil
	}
	return false, badField(http.StatusBadRequest, name, "neither true nor false")
}

// hinted splits what is wrong from what to do about it.
func hinted(text string) (message, hint string) {
	message, hint, _ = strings.Cut(text, "; hint: ")
	return message, hint
}
