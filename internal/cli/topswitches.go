package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/switches"
)

// switched is a switch that is in force, as top shows it.
type switched struct {
	Target string    `json:"target"`
	State  string    `json:"state"`
	For    string    `json:"for"`
	Until  time.Time `json:"until,omitzero"`
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

// switchedBy reads a page of switches of the admin API, and returns those in force. A switch
// that this program cannot read is shown by its target.
func switchedBy(raw []byte) ([]switched, error) {
	var page struct {
		Switches []struct {
			Target    string          `json:"target"`
			Switch    json.RawMessage `json:"switch"`
			InForce   bool            `json:"in_force"`
			UpdatedBy string          `json:"updated_by"`
		} `json:"switches"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return nil, errNoOverview
	}
	list := []switched{}
	for _, one := range page.Switches {
		if !one.InForce {
			continue
		}
		shown := switched{Target: one.Target, State: "switched", For: "all", By: one.UpdatedBy}
		if s, err := switches.Parse(one.Switch); err == nil {
			shown.State, shown.For, shown.Until, shown.Reason = s.State.String(), forText(&s), s.Until, s.Reason
		}
		list = append(list, shown)
	}
	// Those that turn limits off first.
	slices.SortStableFunc(list, func(a, b switched) int { return stateOrder(a.State) - stateOrder(b.State) })
	return list, nil
}

// stateOrder is how much a state should be seen: the least first.
func stateOrder(state string) int {
	if at := slices.Index([]string{"off", "shadow", "raised", "on"}, state); at >= 0 {
		return at
	}
	return 0
}

// maxShownSwitches bounds the lines that top has for switches.
const maxShownSwitches = 3

// switchLines are the switches in force, for the head of a screen.
func switchLines(list []switched) []string {
	var lines []string
	for i := range list {
		if s := &list[i]; i < maxShownSwitches {
			lines = append(lines, switchLine(s))
		}
	}
	if more := len(list) - maxShownSwitches; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more switches: headgate switch list", more))
	}
	return lines
}

func switchLine(s *switched) string {
	until := "until cleared"
	if !s.Until.IsZero() {
		until = "until " + s.Until.UTC().Format(time.RFC3339)
	}
	text := fmt.Sprintf("SWITCHED %s %s  for %s  %s  by %s", s.Target, s.State, s.For, until, s.By)
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return oneLine(text)
}
