package callers_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/refusals"
)

// TestEndOfCredentials: a token and a certificate are good until just before their end, and
// not at it.
func TestEndOfCredentials(t *testing.T) {
	tok, line := token(t, "one", "check")
	b := newBench(t, "tokens:\n"+line+"    expires_at: 2001-09-09T01:46:41Z\ncertificates: [{name: 'cn:cron', rights: [check], expires_at: 2001-09-09T01:46:41Z}]\n")
	g, end := b.gate(callers.HTTP, callers.Options[*headgate.Door]{}), time.Unix(1e9+1, 0)
	for what, s := range map[string]callers.Shown{"token": {Token: tok}, "certificate": {Peer: peer("cron")}} {
		for at, want := range map[time.Time]refusals.Reason{end.Add(-1): refusals.None, end: refusals.Expired} {
			b.now = at
			if _, why := b.enter(g, s); why != want {
				t.Errorf("the %s at %v of its end: %v, want %v", what, at.Sub(end), why, want)
			}
		}
	}
}
