package adminapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// switchboard is what operators have switched.
type switchboard struct{ *Options }

func (b switchboard) routes() []route {
	const path, scopes = "switches/{target}", "For a tenant the scope write is enough, for all else it takes admin."
	return []route{
		{
			method: http.MethodGet, path: "switches", scope: Read, serve: b.list, id: "listSwitches", summary: "List what is switched",
			query: page, answers: []reply{ok(switchesPage{}, "A page, in the order of their targets.")},
		},
		{
			method: http.MethodGet, path: path, scope: Read, serve: b.get, id: "getSwitch", summary: "Show a switch",
			answers: []reply{ok(switchView{}, "The switch.").tagged(), noSuch, unprocessable},
		},
		{
			method: http.MethodPut, path: path, scope: Write, conditions: changeable, serve: b.put, id: "putSwitch", summary: "Switch a rule, its candidate, a tenant, or all",
			about:   "Every node obeys within a second or so. " + scopes,
			body:    &payload{kinds: jsonOnly, most: switches.MaxDocument, of: switches.Document{}, about: "The switch."},
			answers: []reply{ok(switchView{}, "The switch as it is now.").tagged(), created(switchView{}, "The switch, which was not there.").tagged()},
		},
		{
			method: http.MethodDelete, path: path, scope: Write, conditions: removable, serve: b.remove, id: "deleteSwitch", summary: "Switch back",
			about:   scopes,
			answers: []reply{deleted("Nothing is switched for it."), noSuch},
		},
	}
}

// switchView is a switch as it is answered.
type switchView struct {
	Target string `json:"target"`
	// Switch is what a PUT of the same would send.
	Switch json.RawMessage `json:"switch"`
	// InForce is false after its until; Invalid says why it is not for another reason.
	InForce bool   `json:"in_force"`
	Invalid string `json:"invalid,omitempty"`
	// Known says whether the rule that it is for is in force on this node; it is not
	// there for other switches.
	Known     *bool     `json:"known,omitempty"`
	Version   int64     `json:"version"`
	UpdatedAt time.Time `json:"updated_at"`
	UpdatedBy string    `json:"updated_by"`
}

type switchesPage struct {
	Switches   []switchView `json:"switches"`
	NextCursor string       `json:"next_cursor,omitempty"`
}

func (b switchboard) view(c *call, d *sqltenant.Document) switchView {
	v := switchView{Target: d.Name, Switch: json.RawMessage("{}"), Version: d.Version, UpdatedAt: d.UpdatedAt, UpdatedBy: d.UpdatedBy}
	s, err := switches.Parse([]byte(d.Text))
	if err == nil && s.Target.String() != d.Name {
		err = errors.New("it is for another target than its name says")
	}
	if err != nil {
		v.Invalid = err.Error()
		return v
	}
	v.Switch = json.RawMessage(d.Text)
	v.InForce = s.Until.IsZero() || c.now.Before(s.Until)
	if id := cmp.Or(s.Target.Rule, s.Target.Candidate); id != "" {
		v.Known = b.known(id)
	}
	return v
}

// known reports whether there is a rule in force with that ID, nil where that is not
// known.
func (b switchboard) known(id string) *bool {
	if b.Limiter == nil {
		return nil
	}
	set := b.Limiter.Rules()
	known := set != nil && slices.ContainsFunc(set.Rules(), func(r *rules.Rule) bool { return r.ID == id })
	return &known
}

// list answers with a page of switches.
func (b switchboard) list(c *call) (*answer, error) {
	ctx, cancel := c.context()
	defer cancel()
	all, err := c.db.Documents(ctx, sqltenant.SwitchDocument)
	if err != nil {
		return nil, err
	}
	page, next, bad := window(c, all, func(d *sqltenant.Document) string { return d.Name })
	if bad != nil {
		return nil, bad
	}
	p := switchesPage{Switches: make([]switchView, len(page)), NextCursor: next}
	for i := range page {
		p.Switches[i] = b.view(c, &page[i])
	}
	return jsonAnswer(http.StatusOK, p)
}

// target reads {target}.
func (c *call) target() (switches.Target, *problem) {
	text := c.param("target")
	if hint := quotas.Deceptive(text); hint != "" {
		return switches.Target{}, badField(http.StatusUnprocessableEntity, "target", "%s", hint)
	}
	t, err := switches.ParseTarget(text)
	if err != nil {
		// Without the text: it may be an API key.
		return t, badField(http.StatusUnprocessableEntity, "target", "not a target; hint: all, rule:ID, candidate:ID or tenant:KEY:VALUE, the entry of its requests")
	}
	return t, checkTenant("target", t.Tenant)
}

// checkTenant refuses an API key that stands where its hash belongs: switches are kept
// and shown as they are.
func checkTenant(field string, e descriptor.Entry) *problem {
	if e.Key != "api_key" {
		return nil
	}
	if _, err := quotas.ParseName("hash:"+e.Value, nil); err != nil {
		return badField(http.StatusUnprocessableEntity, field, "an API key is not kept as it is; hint: api_key:HASH, where HASH is what GET quotas shows after hash:")
	}
	return nil
}

// get answers with one switch.
func (b switchboard) get(c *call) (*answer, error) {
	t, bad := c.target()
	if bad != nil {
		return nil, bad
	}
	ctx, cancel := c.context()
	defer cancel()
	d, err := c.db.Document(ctx, sqltenant.SwitchDocument, t.String())
	if err != nil {
		return nil, err
	}
	if d.Version == 0 {
		return nil, fail(http.StatusNotFound, "nothing is switched for it")
	}
	return versioned(http.StatusOK, b.view(c, &d), d.Version)
}

// put switches something.
func (b switchboard) put(c *call) (*answer, error) {
	t, bad := c.allowedTarget()
	if bad != nil {
		return nil, bad
	}
	s, bad := c.parseSwitch(t)
	if bad != nil {
		return nil, bad
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	after, before, err := c.putDocument(sqltenant.SwitchDocument, t.String(), string(text))
	if err != nil {
		return nil, err
	}
	return versioned(statusOf(before.Version), b.view(c, &after), after.Version)
}

// remove switches something back.
func (switchboard) remove(c *call) (*answer, error) {
	t, bad := c.allowedTarget()
	if bad != nil {
		return nil, bad
	}
	if _, _, err := c.putDocument(sqltenant.SwitchDocument, t.String(), ""); err != nil {
		return nil, err
	}
	return gone(), nil
}

// allowedTarget is target for who changes it: one tenant is a matter of the scope
// Write, all others of Admin.
func (c *call) allowedTarget() (switches.Target, *problem) {
	t, bad := c.target()
	if bad == nil && t.Tenant.Key == "" {
		bad = c.who.allows(Admin)
	}
	return t, bad
}

// parseSwitch reads the body as a switch for t, which it need not say.
func (c *call) parseSwitch(t switches.Target) (switches.Switch, *problem) {
	if err := strictjson.Valid(c.body); err != nil {
		return switches.Switch{}, malformed(err)
	}
	var fields map[string]json.RawMessage
	text := c.body
	if json.Unmarshal(c.body, &fields) == nil && fields != nil && fields["target"] == nil {
		fields["target"], _ = json.Marshal(t.String()) // a string
		text, _ = json.Marshal(fields)                 // was JSON
	}
	s, err := switches.Parse(text)
	if err != nil {
		return s, switchProblem(err)
	}
	if s.Target != t {
		return s, badField(http.StatusUnprocessableEntity, "target", "not that of the path; hint: leave it out")
	}
	if err := quotas.CheckNew(t.Tenant); err != nil {
		return s, badField(http.StatusUnprocessableEntity, "target", "%v", err)
	}
	if hint := quotas.Deceptive(s.Reason); s.Reason != "" && hint != "" {
		return s, badField(http.StatusUnprocessableEntity, "reason", "%s", hint)
	}
	for i, e := range s.Tenants {
		field := fmt.Sprintf("tenants[%d]", i)
		if err := quotas.CheckNew(e); err != nil {
			return s, badField(http.StatusUnprocessableEntity, field, "%v", err)
		}
		if bad := checkTenant(field, e); bad != nil {
			return s, bad
		}
	}
	if !s.Until.IsZero() && !s.Until.After(c.now) {
		return s, badField(http.StatusUnprocessableEntity, "until", "in the past; hint: leave it out for ever")
	}
	return s, nil
}

func switchProblem(err error) *problem {
	var field *switches.FieldError
	if !errors.As(err, &field) {
		return badField(http.StatusUnprocessableEntity, wholeBody, "%v", err)
	}
	return badFields(http.StatusUnprocessableEntity, []fieldError{fieldOf(&quotas.FieldError{Field: field.Field, Problem: field.Problem})})
}
