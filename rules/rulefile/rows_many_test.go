//go:build !race

// Nothing here runs side by side, and the race detector makes it ten times slower.

package rulefile

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/rules"
)

// manyRows returns n rows of as many endpoints.
func manyRows(n int) []rules.Row {
	rows := make([]rules.Row, n)
	for i := range rows {
		method, route := "GET", fmt.Sprintf("/v1/things/%d", i)
		rows[i] = row(int64(i+1), "user", &method, &route)
	}
	return rows
}

// TestManyRows: as many rows as there may be are in force, in no more than some seconds:
// each is found a place without a look at all others.
func TestManyRows(t *testing.T) {
	rows := manyRows(MaxRows + 1)
	cost := "weight"
	for i := range rows[:MaxRows/2] {
		rows[i].WeightField = cost
	}
	set, err := Load(nil, Options{Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	if set.NumRules() != MaxRows || len(set.BadRows()) != 1 || set.BadRows()[0].ID != MaxRows+1 {
		t.Fatalf("%d rules, %d bad rows", set.NumRules(), len(set.BadRows()))
	}
	for _, id := range []string{"0", "99999"} {
		if got, want := matchText(t, set, "api", "user:u,endpoint:GET /v1/things/"+id), "api.user.endpoint_GET /v1/things/"+id; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	// All for one target: one of them counts, and each other one is named.
	same := make([]rules.Row, MaxRows)
	for i := range same {
		same[i] = row(int64(i+1), "user", nil, nil)
	}
	if set = loadRows(t, "", same...); set.NumRules() != 1 || len(set.BadRows()) != MaxRows-1 {
		t.Errorf("%d rules, %d bad rows", set.NumRules(), len(set.BadRows()))
	}
}

// BenchmarkRows compiles rows of as many endpoints. Ten times as many take ten times as
// long.
func BenchmarkRows(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rows := manyRows(n)
			for b.Loop() {
				if _, err := Load(nil, Options{Rows: rows}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
