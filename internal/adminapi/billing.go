package adminapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/webhook"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// billing is what systems of billing send.
type billing struct{ *Options }

func (b billing) routes() []route {
	return []route{{
		method: http.MethodPost, path: billingPath, signed: true, serve: b.take, id: "takeBillingEvent", summary: "Take an event of billing",
		about: "Its signature is its authority, and no token is.",
		body:  &payload{kinds: jsonOnly, most: maxSmallBody, of: billingEvent{}, about: "What has changed."},
		answers: []reply{
			ok(billingView{}, "What the event asks for is so, or a later event counts."),
			notHere, errorReply(http.StatusConflict, "Another event begins at that instant, or has that id."),
		},
	}}
}

const (
	// billingPath is the route of events of billing, after Prefix.
	billingPath = "hooks/billing"
	// billingActor is who asks there; with ":" and the id of the event in the log of
	// changes.
	billingActor = "billing"
	// maxEvent bounds the id of an event, in bytes: it becomes that of a top-up.
	maxEvent = tenant.MaxName
)

// The types of events of billing.
const (
	tierSet  = "tier.set"
	quotaSet = "quota.set"
	topUpAdd = "top_up.add"
)

// billingEvent is the body of a request of billing. What it asks for begins at At, so
// that of two events the later one counts, in whatever order they come and however
// often: nothing needs to be remembered of them but what they have changed.
type billingEvent struct {
	// ID is the name of the event, and of the top-up that it adds.
	ID   string    `json:"id"`
	Type string    `json:"type"`
	At   time.Time `json:"at"`
	// ExpiresAt ends what it asks for; a top-up needs it.
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	// Subject names the account as paths do.
	Subject string `json:"subject"`
	// Exactly one of these is there, by Type.
	Tier  *string          `json:"tier,omitempty"`
	Quota *quotas.Override `json:"quota,omitempty"`
	TopUp *billingTopUp    `json:"top_up,omitempty"`
}

// billingTopUp is a grant of hits beyond a quota.
type billingTopUp struct {
	Descriptor string `json:"descriptor"`
	Hits       *int64 `json:"hits"`
}

// billingView answers an event.
type billingView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Changed is false where the account says it already, or where a later event
	// counts.
	Changed bool  `json:"changed"`
	Version int64 `json:"version"`
}

// authenticate returns who asks, or the answer to somebody who may not. What billing
// sends is known by its signature, and by nothing else.
func (h *Handler) authenticate(r *http.Request, now time.Time) (*grant, *problem) {
	if !h.fromBilling(r) {
		return h.options.Tokens.file.Get().authenticate(r, now)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxSmallBody+1))
	if err != nil {
		return nil, badField(http.StatusBadRequest, wholeBody, "it ended before its end")
	}
	if len(body) <= maxSmallBody {
		values := r.Header.Values(webhook.SignatureHeader)
		if len(values) == 0 {
			return nil, fail(http.StatusUnauthorized, "%v", webhook.ErrSignature).because(refusals.NoToken)
		}
		err := webhook.ErrSignature
		if len(values) == 1 {
			err = webhook.Verify(h.options.Billing, values[0], body, now)
		}
		switch {
		case errors.Is(err, webhook.ErrSignatureAge):
			return nil, fail(http.StatusUnauthorized, "%v", err).because(refusals.Expired)
		case err != nil:
			return nil, fail(http.StatusUnauthorized, "%v", err).because(refusals.BadSignature)
		}
	}
	// A body that is too large is refused by the route.
	r.Body = io.NopCloser(bytes.NewReader(body))
	return &grant{actor: billingActor, signed: true}, nil
}

// fromBilling reports whether a request is one of billing, which no token lets in.
func (h *Handler) fromBilling(r *http.Request) bool {
	return len(h.options.Billing) > 0 && r.URL.EscapedPath() == Prefix+billingPath
}

// refused notes that who asks was turned away, if that is what is wrong.
func (h *Handler) refused(r *http.Request, because refusals.Reason, actor string) {
	door := refusals.Admin
	if h.fromBilling(r) {
		door = refusals.Billing
	}
	h.options.Refusals.Refused(refusals.DoorOf(r.Context(), door), because, r, actor)
}

// take does what an event asks for.
func (b billing) take(c *call) (*answer, error) {
	var e billingEvent
	if bad := decodeBody(c.body, &e); bad != nil {
		return nil, bad
	}
	name, edit, bad := e.read(b.Options, c.now)
	if bad != nil {
		return nil, bad
	}
	changed := false
	records, err := c.db.UpdateAll(c.context(), []sqltenant.Change{{
		Subject: name.Subject, Actor: billingActor + ":" + e.ID, Version: sqltenant.Anyway, At: c.now,
		Edit: func(r *sqltenant.Record) (err error) {
			if changed, err = edit(r); changed && name.Last4 != "" {
				r.Last4 = name.Last4
			}
			return err
		},
	}})
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, billingView{e.ID, quotas.NameText(name.Subject), changed, records[0].Version})
}

// billingEdit is what an event does to an account. It reports whether it has changed something.
type billingEdit = func(*sqltenant.Record) (changed bool, err error)

// badEvent says what is wrong with a field of an event.
func badEvent(field, format string, args ...any) *problem {
	return badField(http.StatusUnprocessableEntity, field, format, args...)
}

// read checks an event and returns whose account it changes, and how.
func (e *billingEvent) read(o *Options, now time.Time) (name quotas.Name, edit billingEdit, bad *problem) {
	if bad = e.checkHead(); bad != nil {
		return name, nil, bad
	}
	if name, bad = parseNewName(e.Subject, "subject", o.Hasher); bad != nil {
		return name, nil, bad
	}
	term := tenant.Term{From: e.At.UTC().Truncate(time.Microsecond)}
	if e.ExpiresAt != nil {
		if term.Until = e.ExpiresAt.UTC().Truncate(time.Microsecond); !term.From.Before(term.Until) {
			return name, nil, badEvent("expires_at", "not after at")
		}
	}
	if bad = e.checkParts(); bad != nil {
		return name, nil, bad
	}
	switch e.Type {
	case tierSet:
		edit, bad = e.tierEdit(o, term, now)
	case quotaSet:
		edit, bad = e.quotaEdit(name.Subject, term, now)
	default:
		edit, bad = e.topUpEdit(name.Subject, term, now)
	}
	return name, edit, bad
}

// checkHead checks what the event is called and when it begins.
func (e *billingEvent) checkHead() *problem {
	switch {
	case e.ID == "" || len(e.ID) > maxEvent || !ascii.IsVisible(e.ID):
		return badEvent("id", "the name of the event has 1 to %d printable ASCII characters, and no space", maxEvent)
	case e.At.IsZero():
		return badEvent("at", "missing; hint: the instant from which the change counts, the same when the event is sent again")
	case e.At.UnixMicro() < 0:
		return badEvent("at", "before 1970")
	}
	return nil
}

// checkParts checks that the event has the part of its type, and no other.
func (e *billingEvent) checkParts() *problem {
	// The type first: of an event of another type, none of the parts is what is wrong.
	if e.Type != tierSet && e.Type != quotaSet && e.Type != topUpAdd {
		return badEvent("type", "unknown type %.40q; hint: %s, %s or %s", e.Type, tierSet, quotaSet, topUpAdd)
	}
	for _, part := range []struct {
		field, of string
		there     bool
	}{{"tier", tierSet, e.Tier != nil}, {"quota", quotaSet, e.Quota != nil}, {"top_up", topUpAdd, e.TopUp != nil}} {
		if part.there != (e.Type == part.of) {
			return badEvent(part.field, "it is there when type is %s, and only then", part.of)
		}
	}
	return nil
}

func (e *billingEvent) tierEdit(o *Options, term tenant.Term, now time.Time) (billingEdit, *problem) {
	if tiers := o.Tiers(); !tiers.Has(*e.Tier) {
		return nil, badEvent("tier", "unknown tier %.64q; hint: %s", *e.Tier, tiers.Hint())
	}
	return setTier(tenant.Assignment{Tier: *e.Tier, Term: term}, now), nil
}

func (e *billingEvent) quotaEdit(subject tenant.Subject, term tenant.Term, now time.Time) (billingEdit, *problem) {
	if e.Quota.EffectiveAt != nil || e.Quota.ExpiresAt != nil {
		return nil, badEvent("quota", "it has times of its own; hint: at and expires_at of the event")
	}
	if err := quotas.CheckNewDescriptor(e.Quota.Descriptor); err != nil {
		return nil, badEvent("quota.descriptor", "%v", err)
	}
	r := sqltenant.Record{Subject: subject}
	err := (&quotas.Document{Overrides: []quotas.Override{*e.Quota}}).Record(&r, nil)
	if field, ok := errors.AsType[*quotas.FieldError](err); ok {
		return nil, badEvent(billingField("quota", strings.TrimPrefix(field.Field, "overrides[0].")), "%s", field.Problem)
	}
	override := r.Overrides[0]
	override.Term = term
	return setOverride(override, now), nil
}

func (e *billingEvent) topUpEdit(subject tenant.Subject, term tenant.Term, now time.Time) (billingEdit, *problem) {
	if term.Until.IsZero() {
		return nil, badEvent("expires_at", "missing; hint: a top-up has an end")
	}
	if err := quotas.CheckNewDescriptor(e.TopUp.Descriptor); err != nil {
		return nil, badEvent("top_up.descriptor", "%v", err)
	}
	t, err := topUpOf(subject, &quotas.TopUp{
		ID: e.ID, Descriptor: e.TopUp.Descriptor, Hits: e.TopUp.Hits, EffectiveAt: &term.From, ExpiresAt: &term.Until,
	}, nil, now)
	if field, ok := errors.AsType[*quotas.FieldError](err); ok {
		return nil, badEvent(billingField("top_up", field.Field), "%s", field.Problem)
	}
	return addTopUp(t, now), nil
}

// billingField is where a field of a part of an event stands in it.
func billingField(part, field string) string {
	switch field {
	case "":
		return part
	case "effective_at":
		return "at"
	case "id", "expires_at":
		return field
	}
	return part + "." + field
}

// setTier gives an account a tier from an instant on. Tiers that cannot count any
// more, now or later, are taken out.
func setTier(a tenant.Assignment, now time.Time) billingEdit {
	return func(r *sqltenant.Record) (bool, error) {
		for _, o := range r.Tiers {
			switch {
			case !o.Term.From.Equal(a.Term.From):
			case o.Tier == a.Tier && o.Term.Until.Equal(a.Term.Until):
				return false, nil
			default:
				return false, errAtOnce
			}
		}
		if slices.ContainsFunc(r.Tiers, func(o tenant.Assignment) bool { return covers(o.Term, a.Term, now) }) {
			return false, nil
		}
		r.Tiers = append(slices.DeleteFunc(r.Tiers, func(o tenant.Assignment) bool { return covers(a.Term, o.Term, now) }), a)
		return true, nil
	}
}

// setOverride is setTier for the quota of a descriptor.
func setOverride(a sqltenant.Override, now time.Time) billingEdit {
	return func(r *sqltenant.Record) (bool, error) {
		same := func(o sqltenant.Override) bool { return o.Descriptor == a.Descriptor }
		for _, o := range r.Overrides {
			switch {
			case !same(o) || !o.Term.From.Equal(a.Term.From):
			case sameQuota(&o, &a) && o.Term.Until.Equal(a.Term.Until):
				return false, nil
			default:
				return false, errAtOnce
			}
		}
		if slices.ContainsFunc(r.Overrides, func(o sqltenant.Override) bool { return same(o) && covers(o.Term, a.Term, now) }) {
			return false, nil
		}
		r.Overrides = append(slices.DeleteFunc(r.Overrides, func(o sqltenant.Override) bool { return same(o) && covers(a.Term, o.Term, now) }), a)
		return true, nil
	}
}

// errAtOnce is the answer to an event for an instant for which something else is
// known.
var errAtOnce = badField(http.StatusConflict, "at", "something else begins at that instant; hint: no two events for one thing have the same")

// sameQuota reports whether two overrides let the same pass.
func sameQuota(a, b *sqltenant.Override) bool {
	return a.Unlimited == b.Unlimited && slices.Equal(a.Limits(), b.Limits())
}

// covers reports whether, from now on, b never counts beside a: a began after b, has
// begun already, and does not end before it.
func covers(a, b tenant.Term, now time.Time) bool {
	return a.From.After(b.From) && !a.From.After(now) && (a.Until.IsZero() || !b.Until.IsZero() && !a.Until.Before(b.Until))
}

// addTopUp grants a top-up once, by its ID. When there is no room for it, those that
// have ended make some.
func addTopUp(t tenant.TopUp, now time.Time) billingEdit {
	return func(r *sqltenant.Record) (bool, error) {
		for _, o := range r.TopUps {
			if o.ID != t.ID {
				continue
			}
			if o.Descriptor == t.Descriptor && o.Hits == t.Hits && o.Term.From.Equal(t.Term.From) && o.Term.Until.Equal(t.Term.Until) {
				return false, nil
			}
			return false, badField(http.StatusConflict, "id", "another top-up has it")
		}
		if !t.Term.Until.After(now) {
			return false, nil // it has ended, and may have been cleared away
		}
		if len(r.TopUps) >= tenant.MaxTopUps {
			r.TopUps = slices.DeleteFunc(r.TopUps, func(o tenant.TopUp) bool { return !o.Term.Until.After(now) })
		}
		r.TopUps = append(r.TopUps, t)
		if len(r.TopUps) > tenant.MaxTopUps {
			return false, badEvent("top_up", "the account has %d that have not ended", tenant.MaxTopUps)
		}
		return true, nil
	}
}
