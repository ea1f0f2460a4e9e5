package replay

import (
	"strings"
	"testing"
	"time"
)

// TestPageIsWhole: each part of a report is on its page, with all its columns, and no name is
// markup there.
func TestPageIsWhole(t *testing.T) {
	at := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)
	of := func(name string) Ranking {
		return Ranking{Keys: []KeyRow{{Domain: "shop", Rule: "r", Key: "<" + name + ">", Count: 51, Error: 52}}, Unlisted: 53}
	}
	r := &Report{
		ShadowDenied: 3, From: at, Until: at.Add(time.Hour), HoursCut: true, Notes: []string{"<note>"},
		Rules: []RuleRow{{Rule: "<rule>"}, {}}, Domains: []DomainRow{{Domain: "<domain>"}}, Hours: []HourRow{{From: at}},
		DeniedTenants: of("tenant"), DeniedKeys: of("key"), AllowedKeys: of("allowed"),
		Reading: Reading{Lines: 41, Bad: 42, Skipped: 43, Twice: 44, Late: 45, Troubles: []Trouble{{Input: "<input>", Line: 46, Error: "<error>"}}},
	}
	r.Requests, r.NewlyDenied, r.Hours[0].NewlyDenied, r.Hours[0].NewlyAllowed = 90, 11, 11, 7
	var page strings.Builder
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, want := range []string{
		"90 requests from 2026-12-01 08:00:00 to 2026-12-01 09:00:00 UTC, compared with the rules of today.", `<span class="big">11</span>`, "79 as before", "would deny 3", "Note: &lt;note&gt;.",
		"<svg", "<td>&lt;rule&gt;", "(not recorded)", "<td>&lt;domain&gt;", "&lt;tenant&gt;", "&lt;key&gt;", "&lt;allowed&gt;", "<td>51<td>52<td>", "has 53 at most", "Further hours",
		"<td>0<td>11<td>7<td>2026-12-01 08:00", "41 lines: 42 bad, 43 about no request or nobody that can be told, 44 there twice, 45 too late", "<li>&lt;input&gt;:46: &lt;error&gt;",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, never := range []string{"%!", "0x", "<note>", "<rule>", "<domain>", "<tenant>", "<key>", "<allowed>", "<input>", "<error>"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
}
