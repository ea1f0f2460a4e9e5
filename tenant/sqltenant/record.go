package sqltenant

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
)

const (
	// MaxSubject bounds the key and the value of a subject, in bytes.
	MaxSubject = 256
	// MaxActor bounds the name of who made a change, in bytes.
	MaxActor = 256
)

// Record is an account as it is kept.
type Record struct {
	Subject tenant.Subject
	// Last4 is what people know a key by: its last four letters; "" for a subject
	// that is no secret.
	Last4 string
	Tiers []tenant.Assignment
	// Overrides have the ID that the database gave them; a new one has none.
	Overrides []Override
	// TopUps are those that have not been cleared away, past ones too. The database
	// gives a new one without an ID one; one that keeps its ID keeps its origin.
	TopUps []tenant.TopUp
	// Version is that of the last change, 0 for an account that is not there. It is
	// what an ETag is made of.
	Version int64
	// UpdatedAt is the instant of the last change.
	UpdatedAt time.Time
	// Invalid says which of its rows are left out of all above, because somebody else
	// has written what they cannot hold: the table and the column. A change of the
	// account leaves them as they are.
	Invalid []error
}

// Override is an override as it is kept: limits that all count, or none when Unlimited; see
// Limits.
type Override struct {
	ID         string
	Descriptor string // canonical; see tenant.ParseDescriptor
	// Unlimited lets everything pass; then the next five fields mean nothing.
	Unlimited       bool
	RequestsPerUnit int64
	Unit            time.Duration
	Algorithm       limit.Algorithm
	Burst           int64
	// More are further limits, each of a length of its own.
	More []OverrideLimit
	Term tenant.Term
	// CreatedAt, UpdatedAt and CreatedBy are set by the database.
	CreatedAt, UpdatedAt time.Time
	CreatedBy            string
}

// Account returns what counts of r. The error names the override that cannot be.
func (r *Record) Account() (tenant.Account, error) {
	a := tenant.Account{Subject: r.Subject, Tiers: r.Tiers, TopUps: r.TopUps}
	for i := range r.Overrides {
		o := &r.Overrides[i]
		quota, err := o.quota()
		if err != nil {
			return a, fmt.Errorf("override %d: %w", i, err)
		}
		a.Overrides = append(a.Overrides, tenant.Override{Descriptor: o.Descriptor, Quota: quota, Term: o.Term})
	}
	return a, nil
}

func (o *Override) quota() (*tenant.Quota, error) {
	if o.Unlimited {
		return &tenant.Quota{}, nil
	}
	quota := &tenant.Quota{Limits: make([]tenant.Limit, 0, 1+len(o.More))}
	for _, one := range o.Limits() {
		l, err := limit.New(limit.Spec{Algorithm: one.Algorithm, Quota: one.RequestsPerUnit, Period: one.Unit, Burst: one.Burst})
		if err != nil {
			return nil, err
		}
		quota.Limits = append(quota.Limits, tenant.Limit{Limit: l, Name: tenant.LimitName(o.Descriptor, l)})
	}
	return quota, nil
}

// Validate refuses what the tables or a snapshot cannot hold.
func (r *Record) Validate() error {
	_, err := r.account()
	return err
}

// account is Account and Validate in one.
func (r *Record) account() (tenant.Account, error) {
	if err := r.check(); err != nil {
		return tenant.Account{}, err
	}
	a, err := r.Account()
	if err != nil {
		return a, err
	}
	a.TopUps = named(a.TopUps)
	return a, a.Validate()
}

// check refuses what the tables cannot hold.
func (r *Record) check() error {
	if err := storable(r.Subject); err != nil {
		return err
	}
	if utf8.RuneCountInString(r.Last4) > 4 {
		return errors.New("last4 has more than four letters: it must not give a key away")
	}
	if err := printable("last4", r.Last4, MaxSubject); r.Last4 != "" && err != nil {
		return err
	}
	for i := range r.Overrides {
		if err := checkTerm(r.Overrides[i].Term); err != nil {
			return fmt.Errorf("override %d: %w", i, err)
		}
	}
	for i := range r.Tiers {
		if err := checkTerm(r.Tiers[i].Term); err != nil {
			return fmt.Errorf("tier %d: %w", i, err)
		}
	}
	return nil
}

// lastInstant is the first one that a text of RFC 3339 cannot show.
var lastInstant = time.Date(10_000, time.January, 1, 0, 0, 0, 0, time.UTC)

// checkTerm refuses instants that cannot be kept or shown.
func checkTerm(t tenant.Term) error {
	switch {
	case t.From.Before(time.Unix(0, 0)) && !t.From.IsZero():
		return errors.New("effective before 1970; hint: leave it out for always")
	case t.Until.UnixMicro() <= 0 && !t.Until.IsZero():
		return errors.New("ends before 1970; hint: leave it out for never")
	case !t.From.Before(lastInstant) || !t.Until.Before(lastInstant):
		return errors.New("begins or ends after the year 9999; hint: leave the end out for never")
	}
	return nil
}

// named returns top-ups of which those without an ID have one.
func named(topUps []tenant.TopUp) []tenant.TopUp {
	if !slices.ContainsFunc(topUps, func(t tenant.TopUp) bool { return t.ID == "" }) {
		return topUps
	}
	all := slices.Clone(topUps)
	for i := range all {
		if all[i].ID == "" {
			all[i].ID = newID()
		}
	}
	return all
}

// storable refuses a subject that the tables cannot hold.
func storable(s tenant.Subject) error {
	return cmp.Or(printable("subject", s.Key, MaxSubject), printable("subject", s.Value, MaxSubject))
}

// printable takes text that a terminal and a column of text can hold.
func printable(what, text string, most int) error {
	switch {
	case text == "":
		return fmt.Errorf("%s is empty", what)
	case len(text) > most:
		return fmt.Errorf("%s of %d bytes; hint: at most %d", what, len(text), most)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%s is not printable text", what)
	}
	return nil
}

// micros returns an instant as it is kept: 0 for always and never.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// instant is the inverse of micros.
func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
