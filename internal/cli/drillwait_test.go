package cli

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/drill"
)

func TestDrillWait(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	const s = time.Second
	// seen is what the store has at one time.
	type seen struct {
		at     time.Duration
		id     string // "" has none
		ended  bool
		states []drill.State
		want   drillNext
	}
	part, healing, done, apart := []drill.State{drill.Running, drill.Apart}, []drill.State{drill.Healing}, []drill.State{drill.Done}, []drill.State{drill.Apart}
	for name, all := range map[string][]seen{
		"to its end": {{s, "1", false, nil, drillGoesOn}, {2 * s, "1", false, part, drillGoesOn}, {50 * s, "1", false, part, drillGoesOn},
			{61 * s, "1", true, healing, drillGoesOn}, {65 * s, "1", true, healing, drillGoesOn}, {66 * s, "1", true, done, drillDone}},
		"never back":    {{2 * s, "1", false, part, drillGoesOn}, {61 * s, "1", true, healing, drillGoesOn}, {135 * s, "1", true, healing, drillGoesOn}, {137 * s, "1", true, healing, drillDone}},
		"all heard":     {{2 * s, "1", true, done, drillGoesOn}, {4 * s, "1", true, done, drillGoesOn}, {6 * s, "1", true, done, drillDone}},
		"nobody":        {{2 * s, "1", false, apart, drillGoesOn}, {9 * s, "1", false, apart, drillGoesOn}, {11 * s, "1", false, apart, drillOfNobody}, {12 * s, "1", false, apart, drillGoesOn}, {22 * s, "1", false, apart, drillOfNobody}, {23 * s, "1", true, apart, drillGoesOn}, {27 * s, "1", true, apart, drillDone}},
		"no node":       {{11 * s, "1", false, nil, drillOfNobody}},
		"somebody late": {{9 * s, "1", false, apart, drillGoesOn}, {11 * s, "1", false, part, drillGoesOn}},
		"lost and back": {{9 * s, "1", false, part, drillGoesOn}, {11 * s, "", false, nil, drillGoesOn}, {18 * s, "", false, nil, drillGoesOn}, {20 * s, "1", true, done, drillGoesOn}, {24 * s, "1", true, done, drillDone}},
		"lost":          {{9 * s, "1", false, part, drillGoesOn}, {11 * s, "", false, nil, drillGoesOn}, {19 * s, "", false, nil, drillGone}},
		"replaced":      {{9 * s, "1", false, part, drillGoesOn}, {19 * s, "2", false, part, drillGone}},
	} {
		wait := drillWait{id: "1", began: began, known: began}
		for i, one := range all {
			var o *drill.Order
			reports := make([]drill.Report, len(one.states))
			for j, state := range one.states {
				reports[j] = drill.Report{ID: one.id, State: state}
			}
			if one.id != "" {
				o = &drill.Order{ID: one.id, LastsMS: 600_000, BeganAt: began}
			}
			if one.ended {
				o.Ended = &drill.Ending{Why: drill.Expired}
			}
			w := drill.Sum(o, began.Add(one.at), reports)
			if got := wait.next(&w, began.Add(one.at)); got != one.want {
				t.Errorf("%s, look %d: %d, want %d", name, i, got, one.want)
			}
		}
	}
}
