package verdict_test

import (
	"testing"

	"github.com/headgate/headgate/verdict"
)

// What comes of every legal combination: allowed, denied, denied where it is not enforced.
func TestOf(t *testing.T) {
	for by, want := range map[verdict.Decider][3]string{
		verdict.ByStore:       {"allowed", "denied", "shadow_denied"},
		verdict.ByLocalShare:  {"local_allowed", "local_denied", "local_allowed"},
		verdict.ByLocalWhole:  {"degraded_allowed", "open_denied", "degraded_allowed"},
		verdict.ByFailureMode: {"degraded_allowed", "degraded_denied", "degraded_allowed"},
		verdict.BySkipping:    {"skipped", "skipped", "skipped"},
		verdict.ByReplacement: {"replaced", "replaced", "replaced"},
		verdict.ByReserve:     {"allowed", "denied", "shadow_denied"},
	} {
		for _, effect := range []verdict.Effect{verdict.Enforced, verdict.AllShadow, verdict.RuleShadow, verdict.Trial} {
			denied := want[2]
			if effect == verdict.Enforced {
				denied = want[1]
			}
			if got := verdict.Of(effect, by, true).String(); got != want[0] {
				t.Errorf("decider %d, effect %d, allowed: %s, want %s", by, effect, got, want[0])
			}
			if got := verdict.Of(effect, by, false).String(); got != denied {
				t.Errorf("decider %d, effect %d, denied: %s, want %s", by, effect, got, denied)
			}
		}
	}
}

func TestWordsAreDifferent(t *testing.T) {
	seen := map[string]bool{}
	for o := range verdict.Outcomes {
		if word := o.String(); word == "" || seen[word] {
			t.Errorf("outcome %d is %q", o, word)
		}
		seen[o.String()] = true
	}
	if verdict.OfLimits != verdict.Skipped+1 {
		t.Errorf("%d outcomes of limits", verdict.OfLimits)
	}
}
