package tenant_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
)

// TestDescriptorsAndGrants: those of overrides and top-ups in force, and of the tier,
// each once.
func TestDescriptorsAndGrants(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	past, still := tenant.Term{From: now.Add(-2 * time.Hour), Until: now}, tenant.Term{From: now, Until: now.Add(time.Hour)}
	free := &tenant.Quota{}
	tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "free", Quotas: map[string]*tenant.Quota{tenant.Default: free, "op:b": free}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	subject := tenant.Subject{Key: "tenant", Value: "acme"}
	a := tenant.Account{Subject: subject, Overrides: []tenant.Override{
		{Descriptor: "op:a", Quota: free, Term: still}, {Descriptor: "op:b", Quota: free, Term: still}, {Descriptor: "op:c", Quota: free, Term: past},
	}, TopUps: []tenant.TopUp{
		{ID: "2", Descriptor: "op:x", Hits: 5, Term: still}, {ID: "1", Descriptor: "", Hits: 5, Term: still}, {ID: "3", Descriptor: "", Hits: 5, Term: past},
	}}
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
	s := tenant.NewSnapshot(tiers, slices.Values([]tenant.Account{a}))
	at := limit.MicrosOf(now)
	if got := fmt.Sprintf("%q", s.Standing(subject, at).Descriptors()); got != `["" "op:a" "op:b"]` {
		t.Errorf("descriptors %s", got)
	}
	var got []string
	for _, g := range s.Grants(subject, at) {
		got = append(got, g.ID+" for "+tenant.DescriptorText(g.Descriptor()))
		if g.Term() != still {
			t.Errorf("%s: %v", g.ID, g.Term())
		}
	}
	if fmt.Sprint(got) != "[1 for default 2 for op:x]" {
		t.Errorf("grants %v", got)
	}
	nobody := tenant.Subject{Key: "tenant", Value: "nobody"}
	if got := tenant.NewSnapshot(new(tenant.Tiers), slices.Values([]tenant.Account(nil))); got.Standing(nobody, at).Descriptors() != nil || got.Grants(nobody, at) != nil {
		t.Error("nobody has something")
	}
}
