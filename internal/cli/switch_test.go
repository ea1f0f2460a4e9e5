package cli

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/hotraise"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/redisstore"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// TestNoReasonPassesForASwitch: what somebody wrote into the database by hand stays in
// its cell of the table.
func TestNoReasonPassesForASwitch(t *testing.T) {
	kept := keptSwitch{
		Document: sqltenant.Document{UpdatedBy: "ann\tben"},
		Switch:   switches.Switch{State: switches.Off, Reason: "oops\nrule:api.user\toff"},
	}
	var out strings.Builder
	if err := printSwitches(&out, []keptSwitch{kept}, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "oops\uFFFDrule:api.user\uFFFDoff") {
		t.Errorf("%q", got)
	}
}

// TestD6HotRaisesAreListed: with the store of the nodes, the keys that rules raise are
// listed after the switches, by a hash.
func TestD6HotRaisesAreListed(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	redis, err := redisstore.New(redisstore.Options{Addr: server.Addr, Budget: eventually.Patience, DialTimeout: eventually.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { redis.Close() })
	set, err := rulefile.Load([]rulefile.File{{Name: "r.yaml", Data: []byte(
		"domain: d\ndescriptors: [{key: user, raise_hot_keys: {by: 20, for: 10m}, rate_limit: {unit: minute, requests_per_unit: 9}}]")}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	list := func() (out string) {
		var stdout, stderr strings.Builder
		eventually.True(t, "the store answers", func() bool {
			stdout.Reset()
			return Run([]string{"switch", "list", "--store", server.URL()}, strings.NewReader(""), &stdout, &stderr) == 0
		})
		return stdout.String()
	}
	if out := list(); strings.Count(out, "\n") != 1 {
		t.Errorf("before: %s", out)
	}
	raiser := hotraise.New(hotraise.Options{Register: redis, Rules: func() *rules.Set { return set }, Node: "n1", Logger: slog.New(slog.DiscardHandler)})
	raiser.Hot("d.user", []byte("ann"))
	eventually.True(t, "it is raised", func() bool { raiser.Start(t.Context()); return len(raiser.List()) == 1 })
	one := raiser.List()[0]
	row := fmt.Sprintf(`raise:d\.user +raised +\+20%%, key hash %x +%s +%s +n1 +hot key; not again before %s\n`, one.Key[:],
		one.Until.Format(time.RFC3339), one.From.Format(time.RFC3339), one.Again.Format(time.RFC3339))
	if out := list(); !regexp.MustCompile(row).MatchString(out) {
		t.Errorf("%s\nwant %s", out, row)
	}
}
