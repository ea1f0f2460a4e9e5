package callers_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/tokenfile"
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

// TestFileSaysWhoIsAnonymous: where the file speaks of those who show nothing, it says all of
// it, also that they may do nothing; where it does not, the settings say it.
func TestFileSaysWhoIsAnonymous(t *testing.T) {
	_, line := token(t, "one", "check")
	b := newBench(t, "tokens:\n"+line+"anonymous: {http: [], grpc: [explain]}\n")
	check := headgate.Rights{Check: true}
	for at, want := range map[callers.Listener]headgate.Rights{callers.HTTP: {}, callers.GRPC: {Explain: true}, callers.Ops: check} {
		if got, _ := b.enter(b.gate(at, callers.Options[*headgate.Door]{Anonymous: check}), callers.Shown{}); got != want {
			t.Errorf("%v: %+v, want %+v", at, got, want)
		}
	}
}

// TestNeeds: who has rights, and none of those that are of use here, does not come in, with a
// credential or without one.
func TestNeeds(t *testing.T) {
	checks, checksLine := token(t, "checks", "check")
	explains, explainsLine := token(t, "explains", "explain")
	b := newBench(t, "tokens:\n"+checksLine+explainsLine+"anonymous: {ops: [check]}\n")
	g := b.gate(callers.Ops, callers.Options[*headgate.Door]{Needs: headgate.Rights{Explain: true}})
	for _, c := range []struct {
		shown callers.Shown
		want  headgate.Rights
		why   refusals.Reason
	}{
		{callers.Shown{}, headgate.Rights{}, refusals.NoToken},
		{callers.Shown{Token: checks}, headgate.Rights{}, refusals.WrongScope},
		{callers.Shown{Token: explains}, headgate.Rights{Check: true, Explain: true}, refusals.None},
	} {
		if got, why := b.enter(g, c.shown); got != c.want || why != c.why {
			t.Errorf("%+v: %+v, %v; want %+v, %v", c.shown, got, why, c.want, c.why)
		}
	}
}

// TestFilesAreBounded: a file has so many tokens and so many certificates, and not one more.
func TestFilesAreBounded(t *testing.T) {
	for what, one := range map[string]func(i int) string{
		"tokens":       func(i int) string { return fmt.Sprintf("{name: t, sha256: %064x, rights: [check]}", i) },
		"certificates": func(i int) string { return fmt.Sprintf("{name: 'cn:n%d', rights: [check]}", i) },
	} {
		for _, n := range []int{tokenfile.MaxTokens, tokenfile.MaxTokens + 1} {
			list := make([]string, n)
			for i := range list {
				list[i] = one(i)
			}
			path := filepath.Join(t.TempDir(), "callers.yaml")
			if err := os.WriteFile(path, []byte(what+": ["+strings.Join(list, ", ")+"]"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := callers.Load(path); (err == nil) != (n <= tokenfile.MaxTokens) {
				t.Errorf("%d %s: %v", n, what, err)
			}
		}
	}
}

// TestMappedAddresses: an address of IPv4 is the same one where it comes as one of IPv6, and
// what it has shown is not held against others that come so.
func TestMappedAddresses(t *testing.T) {
	_, line := token(t, "one", "check")
	g := newBench(t, "tokens:\n"+line).gate(callers.HTTP, callers.Options[*headgate.Door]{})
	hungUp := func(from string) bool {
		_, err := g.Enter(callers.Shown{Token: "wrong"})
		var refused *callers.Refused
		return errors.As(g.Refuse(err, netip.MustParseAddr(from)), &refused) && refused.Ends()
	}
	for range 20 {
		if hungUp("::ffff:192.0.2.1") {
			t.Fatal("hung up on too early")
		}
	}
	if !hungUp("192.0.2.1") {
		t.Error("the same address is told of a wrong token once more")
	}
	others := 0
	for i := range 10 { // a few of them may share the slot
		if hungUp(fmt.Sprintf("::ffff:198.51.100.%d", i)) {
			others++
		}
	}
	if others > 5 {
		t.Errorf("%d of 10 other addresses were hung up on", others)
	}
}
