package switches_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/switches"
)

// TestSetLeavesItsListAlone: a set writes nothing into the memory that its switches came in.
func TestSetLeavesItsListAlone(t *testing.T) {
	room := []descriptor.Entry{acme, bolt}
	mustSet(t, switches.Switch{State: switches.Off, Tenants: room[:1]}, switches.Switch{Target: switches.Target{Rule: "r"}, State: switches.Off, Tenants: room[1:]})
	if !slices.Equal(room, []descriptor.Entry{acme, bolt}) {
		t.Errorf("it is %v now", room)
	}
}

// TestTwice: no target is there twice, of whatever kind.
func TestTwice(t *testing.T) {
	for _, text := range []string{"all", "rule:r", "candidate:r", "raise:r", "tenant:tenant:acme"} {
		target, err := switches.ParseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		one := switches.Switch{Target: target, State: switches.Off}
		if target.Raise != "" {
			one.State, one.Raise, one.Until = switches.Raised, 20, noon
		}
		mustSet(t, one)
		if _, err := switches.NewSet([]switches.Switch{one, one}); err == nil || err.Error() != "switch "+text+": it is there twice" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestBounds: the text of a target and that of a whole switch are bounded; a switch of one
// tenant has no other ones; and an end is one that JSON shows, whatever its zone.
func TestBounds(t *testing.T) {
	if _, err := switches.ParseTarget("rule:" + strings.Repeat("r", 595)); err != nil {
		t.Error(err)
	}
	if _, err := switches.ParseTarget("rule:" + strings.Repeat("r", 596)); err == nil || !strings.Contains(err.Error(), "601 bytes") {
		t.Errorf("a long target: %v", err)
	}
	text := `{"target":"all","state":"off"}`
	if _, err := switches.Parse([]byte(text + strings.Repeat(" ", switches.MaxDocument-len(text)))); err != nil {
		t.Error(err)
	}
	if _, err := switches.Parse([]byte(text + strings.Repeat(" ", switches.MaxDocument-len(text)+1))); err == nil || !strings.Contains(err.Error(), "hint: at most") {
		t.Errorf("a long text: %v", err)
	}
	one := switches.Switch{Target: switches.Target{Tenant: acme}, State: switches.Off, Tenants: []descriptor.Entry{bolt}}
	if err := one.Validate(); err == nil || !strings.Contains(err.Error(), "canary of one tenant") {
		t.Errorf("a tenant with others: %v", err)
	}
	late := switches.Switch{State: switches.Off, Until: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("west", -2*60*60))}
	if err := late.Validate(); err == nil || !strings.Contains(err.Error(), "year 9999") {
		t.Errorf("an end in the year 10000: %v", err)
	}
}
