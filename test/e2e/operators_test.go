package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// must runs a command of headgate that has to work.
func (y *tenancy) must(args ...string) string {
	y.t.Helper()
	out, err := y.command(args...)
	if err != nil {
		y.t.Fatalf("headgate %q: %v\n%s", args, err, out)
	}
	return out
}

// passes waits until n lets a tenant pass, or denies it.
func (n *node) passes(t *testing.T, tenant string, want bool) {
	t.Helper()
	n.until(t, func() error {
		a, err := n.check(fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":"tenant","value":%q}],"hits":1}]}`, tenant))
		if err == nil && a.Allowed != want {
			err = fmt.Errorf("allowed is %v, want %v", a.Allowed, want)
		}
		return err
	})
}

// Three processes, one PostgreSQL and one Redis: a switch that a fourth process sets is
// in force on all of them; the distribution is printed. One with an end ends by itself.
// It stays in force while the database is away, also in a process that starts then.
func TestB6FleetHearsOfSwitches(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	kept := filepath.Join(t.TempDir(), "kept")
	fleet := []*node{startNode(t, y.args("--tenants-file", kept)...), startNode(t, y.args()...), startNode(t, y.args()...)}
	y.set("tenant:acme", "--quota", "default=1/hour")
	all := func(want bool) {
		t.Helper()
		for _, n := range fleet {
			n.passes(t, "acme", want)
		}
	}
	all(false)
	var took []time.Duration
	for range 10 {
		y.must("switch", "set", "rule:api.tenant", "off", "--reason", "a load test")
		set := time.Now()
		all(true)
		took = append(took, time.Since(set))
		y.must("switch", "clear", "rule:api.tenant")
		cleared := time.Now()
		all(false)
		took = append(took, time.Since(cleared))
	}
	slices.Sort(took)
	t.Logf("in force on 3 nodes after `switch set` and `switch clear` have returned: median %v, 18 of 20 within %v, most %v", took[10], took[17], took[19])

	y.must("switch", "set", "tenant:tenant:acme", "shadow", "--until", "4s")
	all(true)
	all(false)

	y.must("switch", "set", "all", "off")
	all(true)
	fleet[0].until(t, func() error {
		text, err := os.ReadFile(kept)
		if err == nil && !strings.Contains(string(text), `off`) {
			err = errors.New("the kept file has no switch")
		}
		return err
	})
	y.database.Kill()
	all(true)
	if out, err := y.command("switch", "clear", "all"); err == nil || strings.Contains(out, "not-a-real-secret") {
		t.Errorf("switch clear without the database: %v: %s", err, out)
	}
	late := startNode(t, y.args("--tenants-file", kept)...)
	late.passes(t, "acme", true)
	y.database.Restart()
	fleet = append(fleet, late)
	y.must("switch", "clear", "all")
	all(false)
	if out := y.must("quota", "log", "--verify"); strings.Contains(out, "broken") {
		t.Errorf("the log of changes: %s", out)
	}
}

// Rules that an operator writes into the table by plain SQL, and documents of rules, are
// in force on all processes beside those of files. A row that cannot be is left out.
func TestB8FleetHearsOfRulesInSQL(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	fleet := []*node{startNode(t, y.args("--merge-domains")...), startNode(t, y.args("--merge-domains")...)}
	limitOf := func(key, value string, want int64) {
		t.Helper()
		for _, n := range fleet {
			n.until(t, func() error {
				body := fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":%q,"value":%q}],"hits":0}]}`, key, value)
				resp, err := n.client.Post("http://headgate/v1/check", "application/json", strings.NewReader(body))
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				var a struct{ Limit int64 }
				if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
					return err
				}
				if a.Limit != want {
					return fmt.Errorf("the limit of %s is %d, want %d", key, a.Limit, want)
				}
				return nil
			})
		}
	}
	limitOf("tenant", "acme", 100)
	y.database.Exec(
		// As an operator writes it: what is not wanted is NULL, and times are times.
		`INSERT INTO rate_limit_rules (scope, route, method, limit_count, window_ms, weight_field, is_active, created_at, updated_at)
			VALUES ('apikey', NULL, NULL, 30, 60000, NULL, TRUE, now(), now())`,
		`INSERT INTO rate_limit_rules (scope, limit_count, window_ms) VALUES ('planet', 30, 60000)`,
		`INSERT INTO rate_limit_rules (scope, limit_count, window_ms, algorithm) VALUES ('user', 5, 60000, 'teleport')`,
	)
	limitOf("api_key", "k", 30)
	limitOf("user", "u", 0)
	limitOf("tenant", "acme", 100)
	y.database.Exec(`UPDATE rate_limit_rules SET limit_count = 40 WHERE scope = 'apikey'`)
	limitOf("api_key", "k", 40)
	y.database.Exec(`UPDATE rate_limit_rules SET is_active = FALSE WHERE scope = 'apikey'`)
	limitOf("api_key", "k", 0)

	file := filepath.Join(t.TempDir(), "more.yaml")
	y.write(file, "domain: api\ndescriptors:\n- key: region\n  rate_limit: {unit: minute, requests_per_unit: 50}\n")
	y.must("rules", "put", "more", file)
	limitOf("region", "eu", 50)
	y.must("rules", "delete", "more")
	limitOf("region", "eu", 0)

	y.write(y.tiers+"2", strings.Replace(tenantTiers, "requests_per_unit: 100,", "requests_per_unit: 120,", 1))
	y.must("tier", "apply", y.tiers+"2")
	limitOf("tenant", "acme", 120)
	y.must("tier", "clear")
	limitOf("tenant", "acme", 100)
}

// What a tenant has used is the same whichever process is asked; a reset on one is seen
// by all, and nothing of it consumes.
func TestI3UsageOfAFleet(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	dir, err := os.MkdirTemp("", "hg") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	token, tokens := filepath.Join(dir, "token"), filepath.Join(dir, "tokens.yaml")
	made := y.must("admin", "token", "ann", "--scope", "admin")
	secret, _, _ := strings.Cut(made, "\n")
	y.write(token, secret+"\n")
	y.write(tokens, "tokens:\n"+strings.Join(strings.Split(made, "\n")[3:], "\n"))
	var fleet []*node
	var admins []*http.Client
	for i := range 2 {
		socket := filepath.Join(dir, fmt.Sprint(i))
		fleet = append(fleet, startNode(t, y.args("--admin-addr", "unix://"+socket, "--admin-tokens", tokens)...))
		admins = append(admins, &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}})
		t.Cleanup(admins[i].CloseIdleConnections)
	}
	ask := func(i int, method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://admin/admin/v1/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+secret)
		req.Header.Set("Content-Type", "application/json")
		resp, err := admins[i].Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	used := func(want int64) {
		t.Helper()
		for i := range fleet {
			status, text := ask(i, http.MethodGet, "usage/tenant:acme", "")
			var a struct {
				Usage map[string]struct{ Used, Limit, Remaining int64 }
			}
			if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusOK {
				t.Fatalf("usage: %d %s: %v", status, text, err)
			}
			if u := a.Usage["default"]; u.Used != want || u.Limit != 100 || u.Remaining != 100-want {
				t.Errorf("node %d says %s, want %d used of 100", i, text, want)
			}
		}
	}
	used(0)
	for range 7 {
		fleet[1].passes(t, "acme", true)
	}
	for range 20 {
		used(7)
	}
	if status, text := ask(0, http.MethodPost, "usage/tenant:acme/refund", `{"descriptor":"default","hits":3}`); status/100 != 2 {
		t.Fatalf("refund: %d %s", status, text)
	}
	used(4)
	if status, text := ask(1, http.MethodPost, "usage/tenant:acme/reset", `{}`); status/100 != 2 {
		t.Fatalf("reset: %d %s", status, text)
	}
	used(0)
}
