package adminapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// switchRoutes are those of what operators have switched.
type switchRoutes struct{ *Options }

// kept returns where switches are.
func (b switchRoutes) kept(c *call) Switches {
	if b.Switches != nil {
		return b.Switches
	}
	return c.db
}

// failed is the error of where switches are kept. Where that is no database, nobody is told
// to look for one.
func (b switchRoutes) failed(err error) error {
	if _, ours := problemOf(err); !ours || b.Switches == nil {
		return err
	}
	b.OnError(err)
	return later(retryAfter, "the store does not answer, in which switches are kept: it is not known whether this was done; sent again, it does no harm")
}

func (b switchRoutes) routes() []route {
	const path, scopes = "switches/{target}", "For a tenant the scope write is enough, for all else it takes admin."
	local := b.Switches != nil
	return []route{
		{
			method: http.MethodGet, path: "switches", scope: Read, local: local, serve: b.list, id: "listSwitches", summary: "List what is switched",
			query: page, answers: []reply{ok(switchesPage{}, "A page, in the order of their targets.")},
		},
		{
			method: http.MethodGet, path: path, scope: Read, local: local, serve: b.get, id: "getSwitch", summary: "Show a switch",
			answers: []reply{ok(switchView{}, "The switch.").tagged(), noSuch, unprocessable},
		},
		{
			method: http.MethodPut, path: path, scope: Write, local: local, conditions: changeable, serve: b.put, id: "putSwitch", summary: "Switch a rule, its candidate, a tenant, or all, or raise the limits of a rule",
			about:   "Every node obeys within a second or so. " + scopes,
			body:    &payload{kinds: jsonOnly, most: switches.MaxDocument, of: switches.Document{}, about: "The switch."},
			answers: []reply{ok(switchView{}, "The switch as it is now.").tagged(), created(switchView{}, "The switch, which was not there.").tagged()},
		},
		{
			method: http.MethodDelete, path: path, scope: Write, local: local, conditions: removable, serve: b.remove, id: "deleteSwitch", summary: "Switch back",
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

func (b switchRoutes) view(c *call, d *sqltenant.Document) switchView {
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
	if id := cmp.Or(s.Target.Rule, s.Target.Candidate, s.Target.Raise); id != "" {
		v.Known = b.known(id)
	}
	return v
}

// known reports whether there is a rule in force with that ID, nil where that is not
// known.
func (b switchRoutes) known(id string) *bool {
	if b.Limiter == nil {
		return nil
	}
	known := b.Limiter.Rules().Rule(id) != nil
	return &known
}

// sensitive reports whether this node knows that a rule guards what must not be guessed.
func (b switchRoutes) sensitive(id string) bool {
	if id == "" || b.Limiter == nil {
		return false
	}
	rule := b.Limiter.Rules().Rule(id)
	return rule != nil && rule.Sensitive
}

// list answers with a page of switches.
func (b switchRoutes) list(c *call) (*answer, error) {
	all, err := b.kept(c).Documents(c.context(), sqltenant.SwitchDocument)
	if err != nil {
		return nil, b.failed(err)
	}
	page, next, bad := window(c, all, func(d *sqltenant.Document) string { return d.Name }, func(d *sqltenant.Document) switchView { return b.view(c, d) })
	if bad != nil {
		return nil, bad
	}
	return jsonAnswer(http.StatusOK, switchesPage{page, next})
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
		return t, badField(http.StatusUnprocessableEntity, "target", "not a target; hint: all, rule:ID, candidate:ID, raise:ID or tenant:KEY:VALUE, the entry of its requests")
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
func (b switchRoutes) get(c *call) (*answer, error) {
	t, bad := c.target()
	if bad != nil {
		return nil, bad
	}
	d, err := b.kept(c).Document(c.context(), sqltenant.SwitchDocument, t.String())
	if err != nil {
		return nil, b.failed(err)
	}
	if d.Version == 0 {
		return nil, fail(http.StatusNotFound, "nothing is switched for it")
	}
	return versioned(http.StatusOK, b.view(c, &d), d.Version)
}

// put switches something.
func (b switchRoutes) put(c *call) (*answer, error) {
	t, bad := c.allowedTarget()
	if bad != nil {
		return nil, bad
	}
	s, bad := c.parseSwitch(t)
	if bad != nil {
		return nil, bad
	}
	if b.sensitive(t.Raise) {
		return nil, badField(http.StatusUnprocessableEntity, "target", "the rule is sensitive: its limits are not raised; hint: change the rule")
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	after, before, err := c.putDocumentIn(b.kept(c), sqltenant.SwitchDocument, t.String(), string(text))
	if err != nil {
		return nil, b.failed(err)
	}
	return versioned(statusOf(before.Version), b.view(c, &after), after.Version)
}

// remove switches something back.
func (b switchRoutes) remove(c *call) (*answer, error) {
	t, bad := c.allowedTarget()
	if bad != nil {
		return nil, bad
	}
	if _, _, err := c.putDocumentIn(b.kept(c), sqltenant.SwitchDocument, t.String(), ""); err != nil {
		return nil, b.failed(err)
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
		return s, badField(http.StatusUnprocessableEntity, "until", "in the past; hint: an instant that is to come")
	}
	return s, nil
}

func switchProblem(err error) *problem {
	field, ok := errors.AsType[*switches.FieldError](err)
	if !ok {
		return badField(http.StatusUnprocessableEntity, wholeBody, "%v", err)
	}
	return badFields(http.StatusUnprocessableEntity, []fieldError{fieldOf(&quotas.FieldError{Field: field.Field, Problem: field.Problem})})
}
