package e2e

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/testserver"
)

// Two processes with one Redis and no database: what a third one switches is in force on
// both, and again after Redis has lost it and a node has started anew.
func TestSwitchesWithoutADatabase(t *testing.T) {
	t.Parallel()
	y := &tenancy{t: t, redis: testserver.Redis(t, testserver.RedisConfig{}), rules: t.TempDir() + "/rules.yaml"}
	y.write(y.rules, tenantRules)
	args := []string{"--rules", y.rules, "--store", y.redis.URL(), "--store-budget", "10s", "--drain-delay", "0s"}
	fleet := []*node{startNode(t, args...), startNode(t, args...)}
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(path, append(append([]string{"switch"}, args...), "--store", y.redis.URL())...).CombinedOutput()
		if err != nil {
			t.Fatalf("headgate switch %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	all := func(want bool) {
		t.Helper()
		for _, n := range fleet {
			n.passes(t, "acme", want)
		}
	}
	command("set", "all", "off", "--reason", "a bad day", "--actor", "ann")
	for range 9 { // more than the limit
		all(true)
	}
	if out := command("list"); !strings.Contains(out, "a bad day") || !strings.Contains(out, "ann") {
		t.Errorf("list: %s", out)
	}
	y.redis.MustDo("FLUSHALL")
	fleet[0].until(t, func() error {
		if out := command("list"); !strings.Contains(out, "a bad day") {
			return fmt.Errorf("the switch is not put back: %s", out)
		}
		return nil
	})
	fleet[1].process.Kill()
	fleet[1] = startNode(t, args...)
	for range 9 {
		all(true)
	}
	command("clear", "all")
	for _, n := range fleet {
		n.until(t, func() error {
			if shown := n.shown(t, n.at(t, "ops"), "/switches", ""); strings.Contains(shown, "all") {
				return fmt.Errorf("still switched: %s", shown)
			}
			return nil
		})
	}
}

// An admin process with PostgreSQL, and deciders that have no credentials of it: a quota
// and a switch reach them; what somebody else signs does not; they go on when the admin
// process is gone, start again from what they have kept, and hear of a new one.
func TestP6DecidersWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	sign, verify := testserver.SigningKeys(t)
	token, lines, err := adminapi.NewToken("deciders", adminapi.Read, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tokens, tokenFile := filepath.Join(dir, "tokens.yaml"), filepath.Join(dir, "token")
	y.write(tokens, "tokens:\n"+lines)
	y.write(tokenFile, token)
	// The address of whichever admin process there is.
	var target atomic.Pointer[url.URL]
	address := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target.Load()) },
		ErrorLog: log.New(io.Discard, "", 0),
	})
	defer func() { address.CloseClientConnections(); address.Close() }()
	administer := func(key string) *node {
		t.Helper()
		n := launch(t, y.args("--roles", "admin", "--http-addr=", "--grpc-addr=", "--admin-addr", "127.0.0.1:0", "--admin-tokens", tokens, "--snapshot-sign-key", key)...)
		target.Store(&url.URL{Scheme: "http", Host: n.at(t, "admin")})
		return n
	}
	admin := administer(sign)
	decider := func(dir string) []string {
		return []string{
			"--roles", "decide", "--rules", y.rules, "--tiers", y.tiers, "--store", y.redis.URL(), "--store-budget", "10s", "--drain-delay", "0s",
			"--admin-urls", "http://127.0.0.1:1," + address.URL, "--admin-urls-token", tokenFile, "--snapshot-keys", verify, "--tenants-dir", dir,
		}
	}
	dirs := []string{t.TempDir(), t.TempDir()}
	y.set("tenant:acme", "--tier", "pro")
	fleet := []*node{startNode(t, decider(dirs[0])...), startNode(t, decider(dirs[1])...)}
	both := func(met func(n *node)) {
		t.Helper()
		for _, n := range fleet {
			met(n)
		}
	}
	both(func(n *node) { n.becomes(t, "acme", 1000) })
	y.set("tenant:acme", "--quota", "default=7/minute")
	began := time.Now()
	both(func(n *node) { n.becomes(t, "acme", 7) })
	t.Logf("a quota was in force on two deciders after %v", time.Since(began))
	y.must("switch", "set", "rule:api.tenant", "off")
	began = time.Now()
	both(func(n *node) {
		n.until(t, func() error {
			if shown := n.shown(t, n.at(t, "ops"), "/switches", ""); !strings.Contains(shown, "rule:api.tenant") {
				return errors.New("not switched")
			}
			return nil
		})
	})
	t.Logf("a switch was in force on two deciders after %v", time.Since(began))
	y.must("switch", "clear", "rule:api.tenant")

	// The admin process is gone, and so is one of them, which comes back from its directory.
	both(func(n *node) { n.becomes(t, "acme", 7) })
	admin.process.Kill()
	both(func(n *node) { n.becomes(t, "acme", 7) })
	fleet[1].process.Kill()
	fleet[1] = startNode(t, decider(dirs[1])...)
	both(func(n *node) { n.becomes(t, "acme", 7) })
	fleet[1].until(t, func() error {
		if text := fleet[1].scrape(t); !strings.Contains(text, "headgate_tenant_snapshot_from_file 1") {
			return errors.New("not from the directory")
		}
		return nil
	})

	// Somebody with another key is asked, and not believed.
	other, _ := testserver.SigningKeys(t)
	y.set("tenant:acme", "--quota", "default=9/minute")
	forger := administer(other)
	both(func(n *node) {
		n.until(t, func() error {
			if text := n.scrape(t); strings.Contains(text, "headgate_tenant_snapshots_refused_total 0") {
				return errors.New("nothing was refused yet")
			}
			return nil
		})
		n.becomes(t, "acme", 7)
	})
	forger.process.Kill()
	administer(sign)
	both(func(n *node) { n.becomes(t, "acme", 9) })
	if out := fleet[0].process.Output(); strings.Contains(out, token) || strings.Contains(out, "PRIVATE") {
		t.Errorf("a secret is in the log: %s", out)
	}
}
