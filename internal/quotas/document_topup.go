package quotas

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
)

// TopUp is a grant of hits beyond the quota for a descriptor, to be used once.
type TopUp struct {
	// ID names it; see tenant.TopUp. Empty: see Document.Filled.
	ID         string `json:"id,omitempty"`
	Descriptor string `json:"descriptor"`
	Hits       *int64 `json:"hits"`
	// EffectiveAt may be left to Document.Filled.
	EffectiveAt *time.Time `json:"effective_at,omitempty"`
	ExpiresAt   *time.Time `json:"expires_at"`
}

// Filled returns d with what may be left out of a top-up, for an account that had
// others until now: the begin is that of the one with its ID, else now; and the ID that
// of the one that is as good as it, else 128 random bits. So a document that is sent
// twice grants nothing twice.
func (d Document) Filled(had []tenant.TopUp, now time.Time) Document {
	had = slices.Clone(had)
	d.TopUps = slices.Clone(d.TopUps)
	for i := range d.TopUps {
		t := &d.TopUps[i]
		at := slices.IndexFunc(had, t.continues)
		if at >= 0 {
			t.ID = had[at].ID
			if begin := had[at].Term.From; t.EffectiveAt == nil || t.EffectiveAt.IsZero() {
				t.EffectiveAt = &begin
			}
			had = slices.Delete(had, at, at+1)
			continue
		}
		if t.ID == "" {
			t.ID = newTopUpID()
		}
		if t.EffectiveAt == nil || t.EffectiveAt.IsZero() {
			begin := now.UTC().Truncate(time.Microsecond)
			t.EffectiveAt = &begin
		}
	}
	return d
}

// continues reports whether t means the top-up that was there: by its ID, or for want
// of one by all that it says.
func (t *TopUp) continues(had tenant.TopUp) bool {
	if t.ID != "" {
		return t.ID == had.ID
	}
	descriptor, err := tenant.ParseDescriptor(t.Descriptor)
	return err == nil && descriptor == had.Descriptor && t.Hits != nil && *t.Hits == had.Hits &&
		t.ExpiresAt != nil && same(*t.ExpiresAt, had.Term.Until) &&
		(t.EffectiveAt == nil || t.EffectiveAt.IsZero() || same(*t.EffectiveAt, had.Term.From))
}

// same compares instants as they are kept.
func same(a, b time.Time) bool { return limit.MicrosOf(a) == limit.MicrosOf(b) }

func newTopUpID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// topUps returns those of d.
func (d *Document) topUps() ([]tenant.TopUp, error) {
	if len(d.TopUps) > tenant.MaxTopUps {
		return nil, wrong("top_ups", "%d of them; hint: at most %d, delete those of the past", len(d.TopUps), tenant.MaxTopUps)
	}
	list := make([]tenant.TopUp, len(d.TopUps))
	seen := map[string]bool{}
	for i := range d.TopUps {
		field, problem := d.TopUps[i].record(&list[i])
		if field == "" && seen[list[i].ID] {
			field, problem = "id", "a second one with this id"
		}
		if field != "" {
			return nil, wrong(fmt.Sprintf("top_ups[%d].%s", i, field), "%s", problem)
		}
		seen[list[i].ID] = true
	}
	return list, nil
}

// record turns t into r, or says which field cannot be and why.
func (t *TopUp) record(r *tenant.TopUp) (field, problem string) {
	var err error
	if r.Descriptor, err = tenant.ParseDescriptor(t.Descriptor); err != nil {
		return "descriptor", err.Error()
	}
	if r.ID, err = t.ID, tenant.CheckTopUpID(t.ID); err != nil {
		return "id", err.Error()
	}
	if t.Hits == nil || *t.Hits < 1 || *t.Hits > limit.MaxQuota {
		return "hits", fmt.Sprintf("not a whole number from 1 to %d", int64(limit.MaxQuota))
	}
	r.Hits, r.Term = *t.Hits, term(t.EffectiveAt, t.ExpiresAt)
	switch begin, end := r.Term.From, r.Term.Until; {
	case begin.IsZero():
		return "effective_at", "missing"
	case begin.Before(tenant.EarliestTopUp):
		return "effective_at", "before " + tenant.EarliestTopUp.Format(time.DateOnly)
	case end.IsZero():
		return "expires_at", "missing; hint: a top-up has an end"
	case limit.MicrosOf(end) <= limit.MicrosOf(begin):
		return "expires_at", "it is not after effective_at, which is " + begin.UTC().Format(time.RFC3339Nano)
	case end.Sub(begin) > tenant.MaxTopUpTerm:
		return "expires_at", fmt.Sprintf("more than %d days after effective_at", tenant.MaxTopUpTerm/(24*time.Hour))
	}
	return "", ""
}

func topUpOf(r *tenant.TopUp) TopUp {
	hits := r.Hits
	return TopUp{
		ID: r.ID, Descriptor: tenant.DescriptorText(r.Descriptor), Hits: &hits,
		EffectiveAt: optional(r.Term.From), ExpiresAt: optional(r.Term.Until),
	}
}
