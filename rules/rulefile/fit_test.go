package rulefile

import (
	"errors"
	"strings"
	"testing"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// noBuckets refuses token buckets.
func noBuckets(r *rules.Rule) error {
	for i := range r.Limits {
		if r.Limits[i].Algorithm == limit.TokenBucket {
			return errors.New("no token buckets here; hint: a window")
		}
	}
	return nil
}

// A rule that cannot be decided is an error at its line, and a row with one is left out.
func TestFit(t *testing.T) {
	const file = `domain: d
descriptors:
- {key: a, rate_limit: {unit: minute, requests_per_unit: 9}}
- {key: b, name: login, rate_limit: {unit: minute, requests_per_unit: 9, algorithm: token_bucket}}
- {key: c, rate_limit: {unit: minute, requests_per_unit: 9}, secondary_limits: [{name: s, unit: second, requests_per_unit: 5, algorithm: token_bucket}]}
`
	files := []File{{Name: "f.yaml", Data: []byte(file)}}
	if _, err := Load(files, Options{}); err != nil {
		t.Fatal(err)
	}
	_, err := Load(files, Options{Fit: noBuckets})
	var list rules.Errors
	if !errors.As(err, &list) || len(list) != 2 || list[0].String() != "f.yaml:4:1: rule login: no token buckets here; hint: a window" || list[1].Line != 5 {
		t.Errorf("%v", err)
	}
	bad := row(2, "ip", nil, nil)
	bad.Algorithm = "token_bucket"
	set, err := Load(nil, Options{Rows: []rules.Row{row(1, "user", nil, nil), bad}, Fit: noBuckets})
	if err != nil || len(set.Rules()) != 1 {
		t.Fatalf("%v, %v", set, err)
	}
	if text := badText(set); !strings.Contains(text, "id=2: algorithm: no token buckets here; hint: a window") || strings.Contains(text, "id=1") {
		t.Error(text)
	}
	var of rules.RowError
	if err := CheckRow(bad, Options{Fit: noBuckets}); !errors.As(err, &of) || of.Column != "algorithm" {
		t.Error(err)
	}
}
