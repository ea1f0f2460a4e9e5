package switches

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/strictjson"
)

// MaxDocument bounds the JSON of one switch, in bytes: MaxTenants of 600 bytes.
const MaxDocument = 1 << 20

// Document is a switch as people and databases write it.
type Document struct {
	Target  string     `json:"target"`
	State   string     `json:"state"`
	Percent *int       `json:"percent,omitempty"`
	Tenants []string   `json:"tenants,omitempty"`
	Raise   *int       `json:"raise,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	Reason  string     `json:"reason,omitempty"`
}

// FieldError says which field of the JSON of a switch cannot be.
type FieldError struct {
	// Field is its name, such as "state"; "" for the whole.
	Field   string
	Problem string
}

// Error implements error.
func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Problem
	}
	return e.Field + ": " + e.Problem
}

func wrong(field string, err error) error { return &FieldError{field, err.Error()} }

// MarshalJSON implements json.Marshaler.
func (s Switch) MarshalJSON() ([]byte, error) {
	d := Document{Target: s.Target.String(), State: s.State.String(), Reason: s.Reason}
	if s.Percent != 0 {
		d.Percent = &s.Percent
	}
	if s.Raise != 0 {
		d.Raise = &s.Raise
	}
	for _, t := range s.Tenants {
		d.Tenants = append(d.Tenants, t.Key+":"+t.Value)
	}
	if !s.Until.IsZero() {
		until := s.Until.UTC()
		d.Until = &until
	}
	return json.Marshal(d)
}

// Parse reads a switch: one JSON object without unknown fields, as MarshalJSON writes
// it. The error is a *FieldError.
func Parse(data []byte) (Switch, error) {
	var s Switch
	if len(data) > MaxDocument {
		return s, wrong("", fmt.Errorf("%d bytes; hint: at most %d", len(data), MaxDocument))
	}
	var d Document
	if err := decode(data, &d); err != nil {
		return s, err
	}
	var err error
	if s.Target, err = ParseTarget(d.Target); err != nil {
		return s, wrong("target", err)
	}
	if s.State, err = ParseState(d.State); err != nil {
		return s, wrong("state", err)
	}
	if d.Percent != nil {
		if s.Percent = *d.Percent; s.Percent == 0 {
			return s, wrong("percent", errors.New("0 switches nobody; hint: from 1 to 100, or left out for all"))
		}
	}
	for i, text := range d.Tenants {
		key, value, _ := strings.Cut(text, ":")
		if key == "" || value == "" {
			return s, wrong(fmt.Sprintf("tenants[%d]", i), errors.New("it names no tenant; hint: KEY:VALUE, the entry of its requests, such as tenant:acme"))
		}
		s.Tenants = append(s.Tenants, descriptor.Entry{Key: key, Value: value})
	}
	if d.Raise != nil {
		if s.Raise = *d.Raise; s.Raise == 0 {
			return s, wrong("raise", fmt.Errorf("0 raises nothing; hint: from 1 to %d, in per cent of the limit", MaxRaise))
		}
	}
	if d.Until != nil {
		if s.Until = d.Until.UTC(); !showable(s.Until) {
			return s, wrong("until", errUntil)
		}
	}
	s.Reason = d.Reason
	if err := s.Validate(); err != nil {
		return s, wrong("", err)
	}
	return s, nil
}

// decode reads one JSON value strictly.
func decode(data []byte, out *Document) error {
	err := strictjson.Decode(data, out)
	if err == nil {
		return nil
	}
	return wrong(err.Path, errors.New(err.Problem()))
}
