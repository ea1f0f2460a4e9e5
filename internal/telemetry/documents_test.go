package telemetry

import (
	"testing"
	"time"

	"github.com/headgate/headgate/trial"
)

func TestDocumentsAndCandidates(t *testing.T) {
	m := New(Build{}, Options{})
	m.WatchDocuments(func() Documents {
		return Documents{Version: 7, On: 1, Shadow: 2, Off: 3, RefusedRules: 4, RefusedRows: 5, RefusedTiers: 6, RefusedSwitches: 8}
	})
	m.WatchCandidates(func() []trial.Report {
		return []trial.Report{
			{Rule: "a", Decided: 100, Added: 3, Avoided: 2, RolledBack: time.Unix(1, 0)},
			{Rule: "b", Decided: 9},
		}
	})
	m.WatchHooks(func() Hooks { return Hooks{Told: 15, Sent: 1, Failed: 2, Dropped: 4, Queued: 8, Retried: 3} })
	got := scrape(t, m)
	for name, want := range map[string]float64{
		"headgate_documents_version":                   7,
		`headgate_switches{state="on"}`:                1,
		`headgate_switches{state="shadow"}`:            2,
		`headgate_switches{state="off"}`:               3,
		`headgate_documents_refused{kind="rules"}`:     4,
		`headgate_documents_refused{kind="rule_row"}`:  5,
		`headgate_documents_refused{kind="tiers"}`:     6,
		`headgate_documents_refused{kind="switch"}`:    8,
		`headgate_candidate_decided{rule="a"}`:         100,
		`headgate_candidate_added_denials{rule="a"}`:   3,
		`headgate_candidate_avoided_denials{rule="a"}`: 2,
		`headgate_candidate_rolled_back{rule="a"}`:     1,
		`headgate_candidate_rolled_back{rule="b"}`:     0,
		"headgate_webhook_told_total":                  15,
		"headgate_webhook_queued":                      8,
		"headgate_webhook_retries_total":               3,
	} {
		if have, ok := got[name]; !ok || have != want {
			t.Errorf("%s = %v (%v), want %v", name, have, ok, want)
		}
	}
}
