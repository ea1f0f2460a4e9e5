package sqltenant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
)

// OverrideLimit is one limit of an override.
type OverrideLimit struct {
	RequestsPerUnit int64
	Unit            time.Duration
	Algorithm       limit.Algorithm
	Burst           int64
}

// Limits returns all limits of o, which all count; none when it is unlimited.
func (o *Override) Limits() []OverrideLimit {
	if o.Unlimited {
		return nil
	}
	return append([]OverrideLimit{{o.RequestsPerUnit, o.Unit, o.Algorithm, o.Burst}}, o.More...)
}

// SetLimits is the inverse of Limits.
func (o *Override) SetLimits(list []OverrideLimit) {
	o.Unlimited, o.RequestsPerUnit, o.Unit, o.Algorithm, o.Burst, o.More = len(list) == 0, 0, 0, 0, 0, nil
	if len(list) == 0 {
		return
	}
	first := list[0]
	o.RequestsPerUnit, o.Unit, o.Algorithm, o.Burst = first.RequestsPerUnit, first.Unit, first.Algorithm, first.Burst
	if len(list) > 1 {
		o.More = list[1:]
	}
}

// keptLimit is a further limit of an override as its row and the audit chain have it.
type keptLimit struct {
	RequestsPerUnit *int64 `json:"requests_per_unit"`
	Unit            string `json:"unit"`
	Algorithm       string `json:"algorithm,omitempty"`
	Burst           int64  `json:"burst,omitempty"`
}

// keptLimits returns further limits as they are kept.
func keptLimits(more []OverrideLimit) []keptLimit {
	var list []keptLimit
	for _, l := range more {
		list = append(list, keptLimit{&l.RequestsPerUnit, tenant.UnitText(l.Unit), l.Algorithm.String(), l.Burst})
	}
	return list
}

// moreText is the column more_limits of further limits, "" for none.
func moreText(more []OverrideLimit) string {
	if len(more) == 0 {
		return ""
	}
	return jsonOf(keptLimits(more))
}

// parseMore is the inverse of moreText, also for what others have written.
func parseMore(text string) ([]OverrideLimit, error) {
	if text == "" {
		return nil, nil
	}
	var list []keptLimit
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&list); err != nil {
		return nil, fmt.Errorf("no list of limits: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the list of limits")
	}
	var more []OverrideLimit
	for i, kept := range list {
		if kept.RequestsPerUnit == nil {
			return nil, fmt.Errorf("limit %d: requests_per_unit is missing", i)
		}
		l := OverrideLimit{RequestsPerUnit: *kept.RequestsPerUnit, Burst: kept.Burst}
		var err error
		if l.Unit, err = tenant.ParseUnit(kept.Unit); err == nil && kept.Algorithm != "" {
			l.Algorithm, err = limit.ParseAlgorithm(kept.Algorithm)
		}
		if err != nil {
			return nil, fmt.Errorf("limit %d: %w", i, err)
		}
		more = append(more, l)
	}
	return more, nil
}
