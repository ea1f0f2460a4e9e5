package sqltenant

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/tenant"
)

// Entry is one change in the audit chain.
type Entry struct {
	Version int64
	At      time.Time
	Actor   string
	Subject tenant.Subject
	// Before and After are the account as JSON: what counts of it, and Last4.
	Before, After string
	// Hash is the SHA-256, in hexadecimal digits, of the hash before it and of all
	// the fields above, each with its length before it.
	Hash string
}

// BrokenError says at which change the audit chain is broken: it was altered, or
// one before it was taken out.
type BrokenError struct{ Version int64 }

// Error implements error.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("the audit chain is broken at version %d: this change was altered, or one before it was taken out", e.Version)
}

// entryOf returns the entry of a change, chained to the one with the hash previous.
func entryOf(c *Change, before, after *Record, previous string) Entry {
	e := Entry{
		Version: after.Version, At: after.UpdatedAt, Actor: c.Actor, Subject: c.Subject,
		Before: state(before), After: state(after),
	}
	e.Hash = e.chained(previous)
	return e
}

// chained returns the hash of e after that of the one before. A length stands
// before each field, so that no two entries have the same bytes.
func (e *Entry) chained(previous string) string {
	h := sha256.New()
	for _, field := range []string{
		previous, fmt.Sprint(e.Version), fmt.Sprint(micros(e.At)), e.Actor, e.Subject.Key, e.Subject.Value, e.Before, e.After,
	} {
		fmt.Fprintf(h, "%d:%s", len(field), field)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// The audit chain writes an account in these shapes; they are part of what is
// hashed, so fields are only added, at the end and with omitempty.
type (
	accountState struct {
		Last4     string          `json:"last4,omitempty"`
		Tiers     []tierState     `json:"tiers,omitempty"`
		Overrides []overrideState `json:"overrides,omitempty"`
	}
	tierState struct {
		Tier        string `json:"tier"`
		EffectiveAt int64  `json:"effective_at_us,omitempty"`
		ExpiresAt   int64  `json:"expires_at_us,omitempty"`
	}
	overrideState struct {
		Descriptor      string `json:"descriptor"`
		Unlimited       bool   `json:"unlimited,omitempty"`
		RequestsPerUnit int64  `json:"requests_per_unit,omitempty"`
		Unit            string `json:"unit,omitempty"`
		Algorithm       string `json:"algorithm,omitempty"`
		Burst           int64  `json:"burst,omitempty"`
		EffectiveAt     int64  `json:"effective_at_us,omitempty"`
		ExpiresAt       int64  `json:"expires_at_us,omitempty"`
	}
)

// state returns the JSON of what counts of r, whatever the order in which it is
// listed; "{}" for an account that is not there.
func state(r *Record) string {
	s := accountState{Last4: r.Last4}
	for _, t := range r.Tiers {
		s.Tiers = append(s.Tiers, tierState{t.Tier, micros(t.Term.From), micros(t.Term.Until)})
	}
	slices.SortFunc(s.Tiers, func(a, b tierState) int { return cmp.Compare(a.EffectiveAt, b.EffectiveAt) })
	for i := range r.Overrides {
		s.Overrides = append(s.Overrides, r.Overrides[i].state())
	}
	slices.SortFunc(s.Overrides, func(a, b overrideState) int {
		return cmp.Or(strings.Compare(a.Descriptor, b.Descriptor), cmp.Compare(a.EffectiveAt, b.EffectiveAt))
	})
	if r.empty() {
		s = accountState{}
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and integers only
	}
	return string(text)
}

func (o *Override) state() overrideState {
	s := overrideState{Descriptor: o.Descriptor, Unlimited: o.Unlimited, EffectiveAt: micros(o.Term.From), ExpiresAt: micros(o.Term.Until)}
	if !o.Unlimited {
		s.RequestsPerUnit, s.Unit, s.Algorithm, s.Burst = o.RequestsPerUnit, tenant.UnitText(o.Unit), o.Algorithm.String(), o.Burst
	}
	return s
}

// Changes returns up to n entries, at most MaxPage, of versions after one, in
// order.
func (d *DB) Changes(ctx context.Context, after int64, n int) ([]Entry, error) {
	rows, err := d.read.QueryContext(ctx, `SELECT version, at, actor, subject_key, subject, before_state, after_state, hash
		FROM account_changes WHERE version > $1 ORDER BY version LIMIT $2`, after, min(max(n, 1), MaxPage))
	if err != nil {
		return nil, d.failed("read the changes of", err)
	}
	defer rows.Close()
	var entries []Entry
	for rows.Next() {
		var e Entry
		var at int64
		if err := rows.Scan(&e.Version, &at, &e.Actor, &e.Subject.Key, &e.Subject.Value, &e.Before, &e.After, &e.Hash); err != nil {
			return nil, d.failed("read the changes of", err)
		}
		e.At = instant(at)
		entries = append(entries, e)
	}
	if err := rows.Err(); err != nil {
		return nil, d.failed("read the changes of", err)
	}
	return entries, nil
}

// Verify reads the whole audit chain and returns how many changes it has. The error
// is a *BrokenError when a change was altered, put in or taken out, at the end too.
// It sees the chain of one instant as far as no change is made meanwhile.
func (d *DB) Verify(ctx context.Context) (changes int, err error) {
	previous, last := "", int64(0)
	for {
		page, err := d.Changes(ctx, last, MaxPage)
		if err != nil {
			return changes, err
		}
		for i := range page {
			e := &page[i]
			if e.Version != last+1 || e.Hash != e.chained(previous) {
				return changes, &BrokenError{e.Version}
			}
			previous, last = e.Hash, e.Version
			changes++
		}
		if len(page) < MaxPage {
			break
		}
	}
	var version int64
	var digest string
	if err := d.read.QueryRowContext(ctx, `SELECT version, digest FROM tenant_state WHERE id = 1`).Scan(&version, &digest); err != nil {
		return changes, d.failed("verify", err)
	}
	if version < last || version == last && digest != previous {
		return changes, &BrokenError{last}
	}
	if version > last {
		more, err := d.Changes(ctx, last, 1)
		if err != nil {
			return changes, err
		}
		if len(more) == 0 {
			return changes, &BrokenError{last + 1}
		}
	}
	return changes, nil
}
