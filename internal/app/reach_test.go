package app

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cond "github.com/headgate/headgate/internal/eventually"
)

const identityOfThree = `descriptors:
  - entries: [remote_address]
  - entries: [remote_address, method]
  - entries: [{first: [{header: X-User, as: user}, remote_address]}, {literal: secret, as: place}]
allow_invented: true
`

// What of --identity reaches no rule is named at start, and again after each reload.
func TestIdentityThatReachesNoRule(t *testing.T) {
	var log syncBuffer
	s := authSettings(t, "edge")
	s.Identity = filepath.Join(t.TempDir(), "identity.yaml")
	if err := os.WriteFile(s.Identity, []byte(identityOfThree), 0o600); err != nil {
		t.Fatal(err)
	}
	startAuth(t, s, slog.New(slog.NewTextHandler(&log, nil)))
	lines := func(want string) int { return strings.Count(log.String(), want) }
	if want := `descriptors="2 (remote_address, method); 3 (user or remote_address, place)" rules_want="edge: remote_address"`; lines(want) != 1 || lines("no descriptor of --identity") != 0 {
		t.Errorf("log: %s", log.String())
	}
	if strings.Contains(log.String(), "secret") {
		t.Error("the log tells a value")
	}
	change := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.Rules, "edge.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change("domain: edge\ndescriptors: [{key: remote_adress, rate_limit: {unit: hour, requests_per_unit: 2}}]\n")
	cond.True(t, "told that nothing is limited", func() bool { return lines("no descriptor of --identity reaches a rule") == 1 })
	if want := "1 (remote_address); 2 (remote_address, method); 3"; !strings.Contains(log.String(), want) {
		t.Errorf("no %q in %s", want, log.String())
	}
	change("domain: edge\ndescriptors: [{name: all, always: true, rate_limit: {unit: hour, requests_per_unit: 2}}]\n")
	cond.True(t, "the next rules are in force", func() bool { return lines("rules in force") == 3 })
	if n := lines("of --identity reach"); n != 2 {
		t.Errorf("%d lines, want 2: %s", n, log.String())
	}
}

// Without a file, one of the two descriptors that there are then may be there for nothing.
func TestDefaultIdentityThatReachesNoRule(t *testing.T) {
	for text, want := range map[string]int{perAddress: 0, strings.Replace(perAddress, "remote_address", "user", 1): 1} {
		t.Run(fmt.Sprint(want), func(t *testing.T) {
			var log syncBuffer
			s := authSettings(t, "edge")
			if err := os.WriteFile(filepath.Join(s.Rules, "edge.yaml"), []byte("domain: edge"+text), 0o600); err != nil {
				t.Fatal(err)
			}
			startAuth(t, s, slog.New(slog.NewTextHandler(&log, nil)))
			if n := strings.Count(log.String(), "where there is no --identity, so that every request passes; hint: --identity FILE"); n != want {
				t.Errorf("%d lines, want %d: %s", n, want, log.String())
			}
		})
	}
}

// A gateway that names a domain without rules is let pass, and both the log and the metrics
// tell; also after a reload has taken the domain away.
func TestGatewayOfAnUnknownDomain(t *testing.T) {
	var log syncBuffer
	s := authSettings(t, "edge", "partners")
	s.AuthDomain = "edge"
	addrs := startAuth(t, s, slog.New(slog.NewTextHandler(&log, nil)))
	ask := func(domain string, want int) {
		t.Helper()
		r := subRequestOf(t, addrs["auth"], "/auth/nginx@"+domain, "203.0.113.9")
		if r.StatusCode != want {
			t.Errorf("@%s: %s", domain, r.Status)
		}
	}
	ask("partners", 200)
	ask("typo", 200)
	cond.True(t, "told of the domain", func() bool {
		return strings.Contains(log.String(), `kind=unknown_domain front=auth domain=typo keys="remote_address | remote_address, method" domains="edge, partners" requests=1`)
	})
	if err := os.Remove(filepath.Join(s.Rules, "partners.yaml")); err != nil {
		t.Fatal(err)
	}
	cond.True(t, "the domain is gone", func() bool { return strings.Count(log.String(), "rules in force") == 2 })
	for range 5 {
		ask("partners", 200)
	}
	cond.True(t, "told of that", func() bool { return strings.Contains(log.String(), "domain=partners") })
	if strings.Contains(log.String(), "203.0.113") {
		t.Error("the log tells a value")
	}
	if _, body := get(t, "http://"+addrs["ops"]+"/metrics"); !strings.Contains(body, `headgate_requests_total{outcome="unknown_domain"} 6`) {
		t.Error("metrics do not count it")
	}
}
