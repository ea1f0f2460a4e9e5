package sqltenant

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
)

func TestMoreLimits(t *testing.T) {
	for text, want := range map[string][]OverrideLimit{
		"":   nil,
		"[]": nil,
		`[{"requests_per_unit": 5000, "unit": "hour"}]`:                                         {{5000, time.Hour, limit.SlidingWindow, 0}},
		`[{"requests_per_unit":0,"unit":"day","algorithm":"token_bucket","burst":7}]`:           {{0, 24 * time.Hour, limit.TokenBucket, 7}},
		`[{"requests_per_unit":1,"unit":"second"},{"requests_per_unit":2,"unit":"hour"}]` + " ": {{1, time.Second, limit.SlidingWindow, 0}, {2, time.Hour, limit.SlidingWindow, 0}},
	} {
		got, err := parseMore(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
		if again, err := parseMore(moreText(got)); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%q, written and read again: %+v, %v", text, again, err)
		}
	}
	for text, want := range map[string]string{
		"x": "no list", "{}": "no list", `[{"requests_per_unit":1,"unit":"hour"}] x`: "something follows",
		`[{"unit":"hour"}]`:                                    "limit 0: requests_per_unit is missing",
		`[{"requests_per_unit":1,"unit":"fortnight"}]`:         `limit 0: unit "fortnight"`,
		`[{"requests_per_unit":1,"unit":"hour","algo":"ban"}]`: `unknown field "algo"`,
		`[{"requests_per_unit":1,"unit":"hour"},{"requests_per_unit":1,"unit":"day","algorithm":"best"}]`: "limit 1: ",
	} {
		if _, err := parseMore(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	o := Override{Descriptor: tenant.Default, Unlimited: true}
	for _, list := range [][]OverrideLimit{nil, {{1, time.Minute, limit.GCRA, 3}}, {{1, time.Minute, limit.GCRA, 3}, {9, time.Hour, limit.SlidingWindow, 0}}} {
		if o.SetLimits(list); !reflect.DeepEqual(o.Limits(), list) || o.Unlimited != (len(list) == 0) {
			t.Errorf("%+v is kept as %+v", list, o)
		}
	}
}

// FuzzMoreLimits: whatever stands in the column, it is refused, or is the same when it is
// written and read again.
func FuzzMoreLimits(f *testing.F) {
	for _, text := range []string{"", "[]", `[{"requests_per_unit":5000,"unit":"hour"}]`, `[{"requests_per_unit":1,"unit":"10s","algorithm":"gcra","burst":2}]`, "[null]", "{"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		more, err := parseMore(text)
		if err != nil {
			return
		}
		if again, err := parseMore(moreText(more)); err != nil || !reflect.DeepEqual(again, more) {
			t.Errorf("%q: %+v, then %+v, %v", text, more, again, err)
		}
	})
}
