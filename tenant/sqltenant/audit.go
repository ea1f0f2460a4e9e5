package sqltenant

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/tenant"
)

// Entry is one change in the audit chain.
type Entry struct {
	Version int64
	At      time.Time
	Actor   string
	// Kind is AccountEntry, RuleRowEntry or that of a document.
	Kind Kind
	// Subject is whose account was changed. For the other kinds its Key is "" and its
	// Value the name of the document, or the ID of the row in decimal digits.
	Subject tenant.Subject
	// Before and After are what was changed as JSON, "{}" for what is not there: what
	// counts of an account, and Last4; the text of a document as {"text": "..."}, in After also
	// the "reason" of the change where there is one; the
	// columns of a row of rules.
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

// chained returns the hash of e after that of the one before. A length stands
// before each field, so that no two entries have the same bytes. Accounts were the
// only kind once: their entries have no field for it.
func (e *Entry) chained(previous string) string {
	fields := []string{
		previous, strconv.FormatInt(e.Version, 10), strconv.FormatInt(micros(e.At), 10), e.Actor,
		e.Subject.Key, e.Subject.Value, e.Before, e.After,
	}
	if e.Kind != AccountEntry {
		fields = append(fields, string(e.Kind))
	}
	h := sha256.New()
	for _, field := range fields {
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
		TopUps    []topUpState    `json:"top_ups,omitempty"`
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

		More []keptLimit `json:"more_limits,omitempty"`
	}
	topUpState struct {
		ID          string `json:"id"`
		Descriptor  string `json:"descriptor"`
		Hits        int64  `json:"hits"`
		EffectiveAt int64  `json:"effective_at_us,omitempty"`
		ExpiresAt   int64  `json:"expires_at_us"`
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
	for i := range r.TopUps {
		s.TopUps = append(s.TopUps, topUpStateOf(&r.TopUps[i]))
	}
	slices.SortFunc(s.TopUps, func(a, b topUpState) int { return strings.Compare(a.ID, b.ID) })
	if r.empty() {
		s = accountState{}
	}
	return jsonOf(s)
}

// jsonOf returns what is made of texts and integers alone as JSON.
func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // there is nothing in it that can fail
	}
	return string(text)
}

func topUpStateOf(t *tenant.TopUp) topUpState {
	return topUpState{t.ID, t.Descriptor, t.Hits, micros(t.Term.From), micros(t.Term.Until)}
}

func (o *Override) state() overrideState {
	s := overrideState{Descriptor: o.Descriptor, Unlimited: o.Unlimited, EffectiveAt: micros(o.Term.From), ExpiresAt: micros(o.Term.Until)}
	if !o.Unlimited {
		s.RequestsPerUnit, s.Unit, s.Algorithm, s.Burst = o.RequestsPerUnit, tenant.UnitText(o.Unit), o.Algorithm.String(), o.Burst
		s.More = keptLimits(o.More)
	}
	return s
}

// maxEntriesText bounds the texts of one page of entries, in bytes: documents are
// long.
const maxEntriesText = 8 << 20

// Changes returns up to n entries, at most MaxPage, of versions after one, in
// order. There are fewer when they are long, but none only at the end.
func (d *DB) Changes(ctx context.Context, after int64, n int) ([]Entry, error) {
	var entries []Entry
	size := 0
	err := entriesAfter(ctx, d.read, after, min(max(n, 1), MaxPage), func(e *Entry) (more bool) {
		entries = append(entries, *e)
		size += len(e.Before) + len(e.After)
		return size < maxEntriesText
	})
	if err != nil {
		return nil, d.failed("read the changes of", err)
	}
	return entries, nil
}

// entriesAfter hands over up to n entries of versions after one, in order, as long as
// more are wanted.
func entriesAfter(ctx context.Context, q querier, after int64, n int, each func(*Entry) (more bool)) error {
	return eachRow(ctx, q, `SELECT version, at, actor, kind, subject_key, subject, before_state, after_state, hash
		FROM account_changes WHERE version > $1 ORDER BY version LIMIT $2`, []any{after, n}, func(rows *sql.Rows) error {
		var e Entry
		var at whole
		if err := rows.Scan(&e.Version, &at, &e.Actor, &e.Kind, &e.Subject.Key, &e.Subject.Value, &e.Before, &e.After, &e.Hash); err != nil {
			return err
		}
		if e.At = at.instant(); !each(&e) {
			return errEnough
		}
		return nil
	})
}

// headings returns the entry of a version, if it is there, and up to MaxPage after it, in
// order: their versions, kinds, subjects and hashes.
func (d *DB) headings(ctx context.Context, from int64) ([]Entry, error) {
	var entries []Entry
	err := eachRow(ctx, d.read, `SELECT version, kind, subject_key, subject, hash FROM account_changes WHERE version >= $1 ORDER BY version LIMIT $2`,
		[]any{from, MaxPage + 1}, func(rows *sql.Rows) error {
			var e Entry
			err := rows.Scan(&e.Version, &e.Kind, &e.Subject.Key, &e.Subject.Value, &e.Hash)
			entries = append(entries, e)
			return err
		})
	if err != nil {
		return nil, d.failed("read the changes of", err)
	}
	return entries, nil
}

// Verify reads the whole audit chain and returns how many changes it has. The error
// is a *BrokenError when a change was altered, put in or taken out, at the end too.
// It sees the chain of one instant as far as no change is made meanwhile.
func (d *DB) Verify(ctx context.Context) (changes int, err error) {
	end, err := d.VerifyEach(ctx, func(*Entry) error { return nil })
	return int(end.Version), err
}

// VerifyEach is Verify, and hands over each change that follows whole from the one before
// it, in order. It returns the end of what was found whole, and ends with the first error
// of each. Who is handed a change keeps nothing of the Entry itself.
func (d *DB) VerifyEach(ctx context.Context, each func(*Entry) error) (end Point, err error) {
	var c Chain
	for {
		before := c.end
		var stopped error
		err := entriesAfter(ctx, d.read, before.Version, MaxPage, func(e *Entry) (more bool) {
			if stopped = c.Take(e); stopped == nil {
				stopped = each(e)
			}
			return stopped == nil
		})
		switch {
		case err != nil:
			return c.end, d.failed("verify", err)
		case stopped != nil:
			return c.end, stopped
		case c.end == before:
			return c.end, d.verifyEnd(ctx, &c)
		}
	}
}

// Chain is the part of an audit chain that was found whole, wherever its changes were read.
// The zero value is the chain before the first change.
type Chain struct{ end Point }

// End returns the last change that was taken.
func (c *Chain) End() Point { return c.end }

// Take moves c on to e. It refuses what does not come next with a *BrokenError, and stays
// where it is.
func (c *Chain) Take(e *Entry) error {
	if e.Version != c.end.Version+1 || e.Hash != e.chained(c.end.Digest) {
		return &BrokenError{e.Version}
	}
	c.end = Point{e.Version, e.Hash}
	return nil
}

// verifyEnd holds the end of the chain against what the state says.
func (d *DB) verifyEnd(ctx context.Context, c *Chain) error {
	var version int64
	var digest string
	if err := d.read.QueryRowContext(ctx, `SELECT version, digest FROM tenant_head WHERE id = 1`).Scan(&version, &digest); err != nil {
		return d.failed("verify", err)
	}
	if version < c.end.Version || version == c.end.Version && digest != c.end.Digest {
		return &BrokenError{c.end.Version}
	}
	if version > c.end.Version {
		more, err := d.Changes(ctx, c.end.Version, 1)
		if err != nil {
			return err
		}
		if len(more) == 0 {
			return &BrokenError{c.end.Version + 1}
		}
	}
	return nil
}
