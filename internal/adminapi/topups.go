package adminapi

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// topUpBody is a grant of hits beyond a quota.
type topUpBody struct {
	// Descriptor is default where it is not said.
	Descriptor  string     `json:"descriptor"`
	Hits        *int64     `json:"hits"`
	EffectiveAt *time.Time `json:"effective_at"`
	ExpiresAt   *time.Time `json:"expires_at"`
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

// topUps answers with the top-ups of an account.
func (c *call) topUps() (*answer, error) {
	name, bad := c.name()
	if bad != nil {
		return nil, bad
	}
	ctx, cancel := c.context()
	defer cancel()
	r, err := c.accounts.Get(ctx, name.Subject)
	if err != nil {
		return nil, err
	}
	list := make([]topUpView, len(r.TopUps))
	for i := range r.TopUps {
		list[i] = topUpViewOf(&r.TopUps[i], c.now)
	}
	slices.SortFunc(list, func(a, b topUpView) int { return a.EffectiveAt.Compare(b.EffectiveAt) })
	return versioned(http.StatusOK, map[string]any{"top_ups": list}, r.Version)
}

// addTopUp grants hits to an account.
func (c *call) addTopUp() (*answer, error) {
	name, bad := c.name()
	if bad != nil {
		return nil, bad
	}
	var body topUpBody
	if bad := decodeBody(c.body, &body); bad != nil {
		return nil, bad
	}
	t, list := body.topUp(c.now)
	if len(list) > 0 {
		return nil, badFields(http.StatusUnprocessableEntity, list)
	}
	t.ID = newTopUpID()
	r, err := c.change(name.Subject, func(r *sqltenant.Record) error {
		if name.Last4 != "" {
			r.Last4 = name.Last4
		}
		_, err := addTopUp(t, c.now)(r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return versioned(http.StatusCreated, topUpViewOf(&t, c.now), r.Version)
}

// topUp turns b into a top-up without an ID and says all that is wrong with it.
func (b *topUpBody) topUp(now time.Time) (t tenant.TopUp, list []fieldError) {
	bad := func(field, format string, args ...any) {
		list = append(list, fieldError{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	text, p := tenant.Default, (*problem)(nil)
	if b.Descriptor != "" {
		text, p = parseDescriptor(b.Descriptor)
	}
	if p != nil {
		list = append(list, p.Errors...)
	}
	t = tenant.TopUp{Descriptor: text, Term: tenant.Term{From: now.Truncate(time.Microsecond)}}
	if b.Hits == nil || *b.Hits < 1 || *b.Hits > limit.MaxQuota {
		bad("hits", "not a whole number from 1 to %d", int64(limit.MaxQuota))
	} else {
		t.Hits = *b.Hits
	}
	if b.EffectiveAt != nil && !b.EffectiveAt.IsZero() {
		if t.Term.From = *b.EffectiveAt; t.Term.From.Before(time.Unix(0, 0)) {
			bad("effective_at", "before 1970; hint: leave it out for now")
		}
	}
	switch {
	case b.ExpiresAt == nil || b.ExpiresAt.IsZero():
		bad("expires_at", "missing; hint: a top-up has an end")
	case !b.ExpiresAt.After(t.Term.From):
		bad("expires_at", "it is not after effective_at")
	case !b.ExpiresAt.After(now):
		bad("expires_at", "in the past")
	case b.ExpiresAt.Sub(t.Term.From) > limit.MaxPeriod:
		bad("expires_at", "more than 366 days after effective_at")
	default:
		t.Term.Until = *b.ExpiresAt
	}
	return t, list
}

// newTopUpID returns 128 random bits.
func newTopUpID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// removeTopUp takes a top-up out.
func (c *call) removeTopUp() (*answer, error) {
	name, bad := c.name()
	if bad != nil {
		return nil, bad
	}
	_, err := c.change(name.Subject, func(r *sqltenant.Record) error {
		at := slices.IndexFunc(r.TopUps, func(t tenant.TopUp) bool { return t.ID == c.path["top_up"] })
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
