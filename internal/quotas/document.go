package quotas

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// MaxDocument bounds the JSON of one account, in bytes: 4,096 overrides of 250.
const MaxDocument = 1 << 20

// Document is an account as people write it: what shall be of it, whole but for
// top-ups. What has no effective_at counts always, what has no expires_at for ever.
type Document struct {
	// Tier may be empty: then the subject has the fallback tier.
	Tier string `json:"tier,omitempty"`
	// EffectiveAt and ExpiresAt are those of Tier, and of each override that has none of
	// its own; see WithTerms.
	EffectiveAt *time.Time `json:"effective_at,omitempty"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	// Tiers are further tiers that the subject had or will have, by their own times.
	Tiers     []Assignment `json:"tiers,omitempty"`
	Overrides []Override   `json:"overrides,omitempty"`
	// TopUps, when nil, leaves those that the account has; when empty it has none. A
	// top-up is sold, and who sets a tier shall not have to know of it.
	TopUps []TopUp `json:"top_ups,omitzero"`
}

// Assignment is a tier for a time.
type Assignment struct {
	Tier        string     `json:"tier"`
	EffectiveAt *time.Time `json:"effective_at,omitempty"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
}

// Override is the quota of a subject for a descriptor: requests_per_unit and unit, several
// limits, or unlimited.
type Override struct {
	Descriptor      string `json:"descriptor"`
	RequestsPerUnit *int64 `json:"requests_per_unit,omitempty"`
	Unit            string `json:"unit,omitempty"`
	Unlimited       bool   `json:"unlimited,omitempty"`
	Algorithm       string `json:"algorithm,omitempty"`
	Burst           int64  `json:"burst,omitempty"`
	// Limits are several limits, which all count, in place of the one of the fields above.
	Limits      []Limit    `json:"limits,omitempty"`
	EffectiveAt *time.Time `json:"effective_at,omitempty"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
}

// Limit is one of several limits of an override.
type Limit struct {
	RequestsPerUnit *int64 `json:"requests_per_unit"`
	Unit            string `json:"unit"`
	Algorithm       string `json:"algorithm,omitempty"`
	Burst           int64  `json:"burst,omitempty"`
}

// FieldError says which field of a document cannot be.
type FieldError struct {
	// Field is its path, such as "overrides[2].unit"; "" for the whole.
	Field   string
	Problem string
	// Column is where that stands in the line that ParseLine has read, in characters from 1; 0
	// where that is not known.
	Column int
}

// Error implements error.
func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Problem
	}
	return e.Field + ": " + e.Problem
}

func wrong(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// Parse reads a document: one JSON object, without unknown fields.
func Parse(data []byte) (Document, error) {
	var d Document
	if len(data) > MaxDocument {
		return d, wrong("", "%d bytes; hint: at most %d", len(data), MaxDocument)
	}
	return d, decode(data, &d)
}

// WithTerms returns d with its times at those overrides that have none of their own: one
// begin and one end hold for all that a document says, but for Tiers and TopUps.
func (d Document) WithTerms() Document {
	if optionalOf(d.EffectiveAt) == nil && optionalOf(d.ExpiresAt) == nil {
		return d
	}
	d.Overrides = slices.Clone(d.Overrides)
	for i := range d.Overrides {
		o := &d.Overrides[i]
		o.EffectiveAt = cmp.Or(optionalOf(o.EffectiveAt), d.EffectiveAt)
		o.ExpiresAt = cmp.Or(optionalOf(o.ExpiresAt), d.ExpiresAt)
	}
	return d
}

// Record turns d into r, in place of the tiers and overrides that r had, and of the
// top-ups where d says which. tiers, when not nil, says which tiers there are. The error
// is a *FieldError; r is then as it was. What top-ups may leave out has been filled in;
// see Filled.
func (d *Document) Record(r *sqltenant.Record, tiers *tenant.Tiers) error {
	whole := d.WithTerms()
	return whole.record(r, tiers)
}

// record is Record for a document whose overrides have all times of their own.
func (d *Document) record(r *sqltenant.Record, tiers *tenant.Tiers) error {
	next := *r
	next.Tiers, next.Overrides = nil, nil
	assignments := d.Tiers
	if d.Tier != "" {
		assignments = append([]Assignment{{d.Tier, d.EffectiveAt, d.ExpiresAt}}, assignments...)
	} else if (d.EffectiveAt != nil || d.ExpiresAt != nil) && len(d.Overrides) == 0 {
		return wrong("tier", "missing, and no overrides, though effective_at or expires_at is there")
	}
	for i, a := range assignments {
		field := "tier"
		if at := i - (len(assignments) - len(d.Tiers)); at >= 0 {
			field = fmt.Sprintf("tiers[%d].tier", at)
		}
		if tiers != nil && !tiers.Has(a.Tier) {
			return wrong(field, "unknown tier %.64q; hint: %s", a.Tier, tiers.Hint())
		}
		next.Tiers = append(next.Tiers, tenant.Assignment{Tier: a.Tier, Term: term(a.EffectiveAt, a.ExpiresAt)})
	}
	for i := range d.Overrides {
		o, err := d.Overrides[i].record()
		if err != nil {
			var field *FieldError
			errors.As(err, &field) // is always one
			return wrong(fmt.Sprintf("overrides[%d].%s", i, field.Field), "%s", field.Problem)
		}
		next.Overrides = append(next.Overrides, o)
	}
	if d.TopUps != nil {
		var err error
		if next.TopUps, err = d.topUps(); err != nil {
			return err
		}
	}
	if err := next.Validate(); err != nil {
		return wrong("", "%v", err)
	}
	*r = next
	return nil
}

func (o *Override) record() (r sqltenant.Override, err error) {
	if r.Descriptor, err = tenant.ParseDescriptor(o.Descriptor); err != nil {
		return r, wrong("descriptor", "%v", err)
	}
	r.Term = term(o.EffectiveAt, o.ExpiresAt)
	one := Limit{o.RequestsPerUnit, o.Unit, o.Algorithm, o.Burst}
	none := o.RequestsPerUnit == nil && o.Unit == "" && o.Algorithm == "" && o.Burst == 0
	var list []sqltenant.OverrideLimit
	switch {
	case o.Unlimited && !(none && o.Limits == nil):
		return r, wrong("unlimited", "stands alone; hint: leave requests_per_unit, unit, algorithm, burst and limits out")
	case o.Unlimited:
	case o.Limits == nil:
		var l sqltenant.OverrideLimit
		l, err = one.record("")
		list = append(list, l)
	case !none:
		return r, wrong("limits", "they stand alone; hint: leave requests_per_unit, unit, algorithm and burst out")
	default:
		list, err = severalOf(o.Limits)
	}
	r.SetLimits(list)
	return r, err
}

// severalOf returns several limits as they are kept, each of a length of its own.
func severalOf(limits []Limit) ([]sqltenant.OverrideLimit, error) {
	if len(limits) == 0 || len(limits) > tenant.MaxLimits {
		return nil, wrong("limits", "%d of them; hint: from 1 to %d, or unlimited: true", len(limits), tenant.MaxLimits)
	}
	list := make([]sqltenant.OverrideLimit, len(limits))
	for i := range limits {
		field := fmt.Sprintf("limits[%d].", i)
		var err error
		if list[i], err = limits[i].record(field); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list[:i], func(l sqltenant.OverrideLimit) bool { return l.Unit == list[i].Unit }) {
			return nil, wrong(field+"unit", "a second limit per %s; hint: one limit for each length", tenant.UnitText(list[i].Unit))
		}
	}
	return list, nil
}

// record returns l as it is kept; in errors, field stands before the names of its fields.
func (l *Limit) record(field string) (r sqltenant.OverrideLimit, err error) {
	if l.RequestsPerUnit == nil {
		return r, wrong(field+"requests_per_unit", "missing; hint: a whole number, or unlimited: true")
	}
	if r.Unit, err = tenant.ParseUnit(l.Unit); err != nil {
		return r, wrong(field+"unit", "%v", err)
	}
	if l.Algorithm != "" {
		if r.Algorithm, err = limit.ParseAlgorithm(l.Algorithm); err != nil {
			return r, wrong(field+"algorithm", "%v", err)
		}
	}
	if r.Algorithm == limit.Concurrency || r.Algorithm == limit.Ban {
		return r, wrong(field+"algorithm", "%v is no quota over time; hint: one of the other algorithms", r.Algorithm)
	}
	r.RequestsPerUnit, r.Burst = *l.RequestsPerUnit, l.Burst
	if _, err := limit.New(limit.Spec{Algorithm: r.Algorithm, Quota: r.RequestsPerUnit, Period: r.Unit, Burst: r.Burst}); err != nil {
		var spec *limit.SpecError
		errors.As(err, &spec) // is always one
		name := spec.Field
		if name == "quota" {
			name = "requests_per_unit"
		}
		return r, wrong(field+name, "%s; hint: %s", spec.Problem, spec.Hint)
	}
	return r, nil
}

// term reads the times of a document. What is sent as the zero time is as good as
// not sent.
func term(from, until *time.Time) (t tenant.Term) {
	if from != nil {
		t.From = *from
	}
	if until != nil {
		t.Until = *until
	}
	return t
}

// DocumentOf is the inverse of Record. A tier whose times would be taken for those of an
// override stands in Tiers.
func DocumentOf(r *sqltenant.Record) Document {
	var d Document
	first := slices.IndexFunc(r.Tiers, func(a tenant.Assignment) bool {
		return !slices.ContainsFunc(r.Overrides, func(o sqltenant.Override) bool {
			return o.Term.From.IsZero() && !a.Term.From.IsZero() || o.Term.Until.IsZero() && !a.Term.Until.IsZero()
		})
	})
	for i, a := range r.Tiers {
		if i == first {
			d.Tier, d.EffectiveAt, d.ExpiresAt = a.Tier, optional(a.Term.From), optional(a.Term.Until)
			continue
		}
		d.Tiers = append(d.Tiers, Assignment{a.Tier, optional(a.Term.From), optional(a.Term.Until)})
	}
	for i := range r.Overrides {
		d.Overrides = append(d.Overrides, overrideOf(&r.Overrides[i]))
	}
	for i := range r.TopUps {
		d.TopUps = append(d.TopUps, topUpOf(&r.TopUps[i]))
	}
	return d
}

func overrideOf(r *sqltenant.Override) Override {
	o := Override{
		Descriptor: tenant.DescriptorText(r.Descriptor), Unlimited: r.Unlimited,
		EffectiveAt: optional(r.Term.From), ExpiresAt: optional(r.Term.Until),
	}
	var list []Limit
	for _, l := range r.Limits() {
		one := Limit{RequestsPerUnit: &l.RequestsPerUnit, Unit: tenant.UnitText(l.Unit), Burst: l.Burst}
		if l.Algorithm != limit.SlidingWindow {
			one.Algorithm = l.Algorithm.String()
		}
		list = append(list, one)
	}
	if len(list) == 1 {
		o.RequestsPerUnit, o.Unit, o.Algorithm, o.Burst = list[0].RequestsPerUnit, list[0].Unit, list[0].Algorithm, list[0].Burst
	} else {
		o.Limits = list
	}
	return o
}

// optionalOf returns t, nil for the zero time.
func optionalOf(t *time.Time) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	return t
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// decode reads one JSON value strictly. Its errors are *FieldError and name the field
// where there is one.
func decode(data []byte, out any) error {
	err := strictjson.Decode(data, out)
	if err == nil {
		return nil
	}
	return &FieldError{Field: err.Path, Problem: err.Problem()}
}

// decodeKept is decode for a line that this program has written, of which there may be
// ten million: it is read once, and what is wrong with it is told by decode.
func decodeKept(data []byte, out any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(out)
	if err == nil {
		if _, after := decoder.Token(); errors.Is(after, io.EOF) {
			return nil
		}
	}
	return cmp.Or(decode(data, out), err)
}
