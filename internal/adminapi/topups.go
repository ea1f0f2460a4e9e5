package adminapi

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// topUps are those of accounts.
type topUps struct{}

func (t topUps) routes() []route {
	const path = "quotas/{api_key}/top-ups"
	return []route{
		{
			method: http.MethodGet, path: path, scope: Read, serve: ofAccount(t.list), id: "listTopUps", summary: "List the top-ups of an account",
			answers: []reply{ok(topUpsView{}, "Those that are kept, past ones too; what is left of each is no matter of the database.").tagged(), unprocessable},
		},
		{
			method: http.MethodPost, path: path, scope: Write, conditions: changeable, serve: ofAccount(t.grant), id: "addTopUp", summary: "Add a top-up: hits beyond a quota",
			about:   "Each hit can be used once, while the top-up lasts, where the quota denies. An account that is not there is made. With an id of the sender's it is added once, however often it is sent.",
			body:    &payload{kinds: jsonOnly, most: maxSmallBody, of: quotas.TopUp{}, about: "The top-up."},
			answers: []reply{created(topUpView{}, "The top-up.").tagged(), ok(topUpView{}, "The top-up, which was there.").tagged()},
		},
		{
			method: http.MethodDelete, path: path + "/{top_up}", scope: Write, conditions: removable, serve: ofAccount(t.remove), id: "deleteTopUp", summary: "Take a top-up back",
			about:   "What was used of it stays used.",
			answers: []reply{deleted("It is not there any more."), noSuch},
		},
	}
}

// topUpsView are those of an account, in the order in which they begin.
type topUpsView struct {
	TopUps []topUpView `json:"top_ups"`
}

// topUpView is a top-up as it is answered.
type topUpView struct {
	ID          string    `json:"id"`
	Descriptor  string    `json:"descriptor"`
	Hits        int64     `json:"hits"`
	EffectiveAt time.Time `json:"effective_at"`
	ExpiresAt   time.Time `json:"expires_at"`
	// InForce says whether it may be used now.
	InForce bool `json:"in_force"`
}

func topUpViewOf(t *tenant.TopUp, now time.Time) topUpView {
	return topUpView{t.ID, tenant.DescriptorText(t.Descriptor), t.Hits, t.Term.From.UTC(), t.Term.Until.UTC(), t.Term.InForce(limit.MicrosOf(now))}
}

// list answers with the top-ups of an account.
func (topUps) list(c *call, name quotas.Name) (*answer, error) {
	r, err := c.account(name.Subject)
	if err != nil {
		return nil, err
	}
	list := make([]topUpView, len(r.TopUps))
	for i := range r.TopUps {
		list[i] = topUpViewOf(&r.TopUps[i], c.now)
	}
	slices.SortFunc(list, func(a, b topUpView) int { return a.EffectiveAt.Compare(b.EffectiveAt) })
	return versioned(http.StatusOK, topUpsView{list}, r.Version)
}

// grant grants hits to an account.
func (topUps) grant(c *call, name quotas.Name) (*answer, error) {
	var body quotas.TopUp
	if bad := decodeBody(c.body, &body); bad != nil {
		return nil, bad
	}
	if body.ID == "" {
		body.ID = c.topUpID()
	}
	if err := quotas.CheckNewDescriptor(body.Descriptor); err != nil {
		return nil, badField(http.StatusUnprocessableEntity, "descriptor", "%v", err)
	}
	t, err := topUpOf(name.Subject, &body, nil, c.now)
	if err != nil {
		return nil, err
	}
	if !t.Term.Until.After(c.now) {
		return nil, badField(http.StatusUnprocessableEntity, "expires_at", "in the past")
	}
	status := http.StatusCreated
	r, err := c.change(name.Subject, func(r *sqltenant.Record) error {
		if name.Last4 != "" {
			r.Last4 = name.Last4
		}
		if t, err = topUpOf(name.Subject, &body, r.TopUps, c.now); err != nil {
			return err
		}
		changed, err := addTopUp(t, c.now)(r)
		if status = http.StatusCreated; !changed {
			status = http.StatusOK
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return versioned(status, topUpViewOf(&t, c.now), r.Version)
}

// topUpOf returns the top-up that a body means for a subject which had others.
func topUpOf(subject tenant.Subject, body *quotas.TopUp, had []tenant.TopUp, now time.Time) (tenant.TopUp, error) {
	document := quotas.Document{TopUps: []quotas.TopUp{*body}}.Filled(had, now)
	r := sqltenant.Record{Subject: subject}
	err := document.Record(&r, nil)
	if field, ok := errors.AsType[*quotas.FieldError](err); ok {
		return tenant.TopUp{}, &quotas.FieldError{Field: strings.TrimPrefix(field.Field, "top_ups[0]."), Problem: field.Problem}
	}
	return r.TopUps[0], nil
}

// topUpID names a top-up that its sender has not named: by the name of the request, so
// that no process grants it again under that, else by 128 random bits.
func (c *call) topUpID() string {
	var b [16]byte
	if name := c.request.Header.Get(idempotencyField); name != "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(c.who.actor), c.who.actor, name))
		copy(b[:], sum[:])
	} else {
		_, _ = rand.Read(b[:]) // never fails
	}
	return hex.EncodeToString(b[:])
}

// remove takes a top-up out.
func (topUps) remove(c *call, name quotas.Name) (*answer, error) {
	_, err := c.change(name.Subject, func(r *sqltenant.Record) error {
		at := slices.IndexFunc(r.TopUps, func(t tenant.TopUp) bool { return t.ID == c.param("top_up") })
		if at < 0 {
			return fail(http.StatusNotFound, "there is no such top-up")
		}
		r.TopUps = slices.Delete(slices.Clone(r.TopUps), at, at+1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return gone(), nil
}
