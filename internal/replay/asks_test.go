package replay_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/replay"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
)

func askRules(t *testing.T, text string) *rules.Set {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{{Name: "rules.yaml", Data: []byte(text)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// anEvent is a line of an event of descriptors, each as "ENTRIES HITS" and maybe an op.
func anEvent(second int, descriptors ...string) string {
	var list []string
	for _, d := range descriptors {
		f := append(strings.Fields(d), "1", "")
		op := ""
		if len(f) > 4 {
			op = fmt.Sprintf(`,"op":%q`, f[2])
		}
		list = append(list, fmt.Sprintf(`{"entries":%q,"hits":%s%s}`, f[0], f[1], op))
	}
	return fmt.Sprintf(`{"schema":1,"ts":%d,"domain":"api","key":"x","key_hashed":false,"descriptors":[%s],"rule":"","outcome":"allowed","allowed":true,"sample_rate":1}`+"\n", 1_795_348_800_000+1000*second, strings.Join(list, ","))
}

// askedFor returns what was told, one line each, with keys by numbers in the order of their coming.
func askedFor(t *testing.T, o replay.Options, text string) (lines []string, a *replay.Asked) {
	t.Helper()
	o.Inputs = []replay.Input{textInput("events", text, events(nil))}
	keys := make(map[uint64]int)
	a, err := replay.Asks(t.Context(), o, func(ask *replay.Ask) {
		if _, known := keys[ask.Key]; !known {
			keys[ask.Key] = len(keys) + 1
		}
		word := [...]string{store.Hit: "hit", store.Refund: "refund", store.Reset: "reset", store.Charge: "charge"}[ask.Op]
		lines = append(lines, fmt.Sprintf("%s %s/%d key %d: %s %d", ask.At.Time().Format("05"), ask.Rule.ID, ask.Limit, keys[ask.Key], word, ask.Hits))
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines, a
}

func equalLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("told is\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAsks: a request asks of all main limits that are for it, of each key once, whatever they
// would deny.
func TestAsks(t *testing.T) {
	set := askRules(t, `
domain: api
match: path
descriptors:
  - always: true
    name: all
    rate_limit: {unit: second, requests_per_unit: 1}
  - key: user
    limits: [{unit: second, requests_per_unit: 1}, {unit: hour, requests_per_unit: 1}]
    concurrency: 5
    secondary_limits: [{unit: day, requests_per_unit: 1}]
    candidate: {rate_limit: {unit: day, requests_per_unit: 1}}
    descriptors:
      - {key: op, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: free, rate_limit: {unlimited: true}}
  - {key: tokens, cost: {from: entry, name: n, max: 500}, rate_limit: {unit: minute, requests_per_unit: 1}}
`)
	lines, a := askedFor(t, replay.Options{Candidate: set},
		anEvent(0, "user:ann")+anEvent(1, "user:ann,op:read", "user:ann,op:write 3")+anEvent(2, "user:ben,free:yes 2")+
			anEvent(3, "nobody:1")+anEvent(4, "tokens:a,n:40")+anEvent(5, "user:ann 7 refund")+anEvent(6, "user:ann 7 charge")+anEvent(7, "user:ann 7 reset")+"bad\n")
	slices.SortStableFunc(lines, func(x, y string) int { return cmp.Compare(x[:2], y[:2]) })
	equalLines(t, lines,
		"00 all/0 key 1: hit 1", "00 api.user/0 key 2: hit 1", "00 api.user/1 key 2: hit 1",
		"01 all/0 key 1: hit 3", "01 api.user/0 key 2: hit 3", "01 api.user/1 key 2: hit 3", "01 api.user.op/0 key 3: hit 1", "01 api.user.op/0 key 4: hit 3",
		"02 all/0 key 1: hit 2", "02 api.user/0 key 5: hit 2", "02 api.user/1 key 5: hit 2",
		"03 all/0 key 1: hit 1",
		"04 all/0 key 1: hit 1", "04 api.tokens/0 key 6: hit 40",
		"05 all/0 key 1: refund 7", "05 api.user/0 key 2: refund 7", "05 api.user/1 key 2: refund 7",
		"06 all/0 key 1: charge 7", "06 api.user/0 key 2: charge 7", "06 api.user/1 key 2: charge 7",
		"07 api.user/0 key 2: reset 7", "07 api.user/1 key 2: reset 7",
	)
	if a.Requests != 5 || a.Matched != 5 || a.Reading.Bad != 1 || a.From.Second() != 0 || a.Until.Second() != 4 {
		t.Errorf("%+v", a)
	}
}

// TestKeysOfAsks: with the same rules keys are the same again, and with others they are not, so
// that nobody can choose them.
func TestKeysOfAsks(t *testing.T) {
	const text = "domain: api\nmatch: path\ndescriptors:\n- {key: user, rate_limit: {unit: second, requests_per_unit: 1}}\n"
	keyOf := func(text string) (key uint64) {
		o := replay.Options{Candidate: askRules(t, text), Inputs: []replay.Input{textInput("events", anEvent(0, "user:ann"), events(nil))}}
		if _, err := replay.Asks(t.Context(), o, func(a *replay.Ask) { key = a.Key }); err != nil {
			t.Fatal(err)
		}
		return key
	}
	first := keyOf(text)
	if again, other := keyOf(text), keyOf(text+"# of today\n"); again != first || other == first {
		t.Errorf("keys are %x, %x and with other rules %x", first, again, other)
	}
}

// TestAsksOfLeaves: where only leaves count, descriptors of one bucket count each.
func TestAsksOfLeaves(t *testing.T) {
	set := askRules(t, "domain: api\nmatch: leaf\ndescriptors:\n- {key: user, rate_limit: {unit: second, requests_per_unit: 1}}\n")
	lines, a := askedFor(t, replay.Options{Candidate: set}, anEvent(0, "user:ann", "user:ann")+anEvent(1, "user:ann,op:read"))
	equalLines(t, lines, "00 api.user/0 key 1: hit 1", "00 api.user/0 key 1: hit 1")
	if a.Requests != 2 || a.Matched != 1 {
		t.Errorf("%+v", a)
	}
}

// TestAsksLeaveOut: limits that stand back, those of tenants and times that are not asked about.
func TestAsksLeaveOut(t *testing.T) {
	set := askRules(t, `
domain: api
match: path
descriptors:
  - {key: tenant, tenant: true, rate_limit: {unit: hour, requests_per_unit: 9}}
  - key: user
    limits: [{name: slow, unit: hour, requests_per_unit: 9}, {unit: day, requests_per_unit: 9}]
  - {key: vip, rate_limit: {unit: hour, requests_per_unit: 9, replaces: [{name: slow}]}}
`)
	account := tenant.Account{
		Subject:   descriptor.Entry{Key: "tenant", Value: "acme"},
		Overrides: []tenant.Override{{Quota: &tenant.Quota{Limits: []tenant.Limit{{Limit: limit.Must(limit.PerHour(1000))}}}}},
	}
	snapshot := tenant.NewSnapshot(new(tenant.Tiers), slices.Values([]tenant.Account{account}))
	text := anEvent(0, "tenant:acme", "tenant:other") + anEvent(1, "user:ann", "vip:yes") + anEvent(2, "user:ann") + anEvent(3, "user:ann")
	start := time.UnixMilli(1_795_348_800_000)
	lines, a := askedFor(t, replay.Options{Candidate: set, Tenants: snapshot, Until: start.Add(3 * time.Second)}, text)
	equalLines(t, lines,
		"00 api.tenant/0 key 1: hit 1",
		"01 api.user/1 key 2: hit 1", "01 api.vip/0 key 3: hit 1",
		"02 api.user/0 key 2: hit 1", "02 api.user/1 key 2: hit 1",
	)
	if a.Requests != 3 || len(a.Notes) != 0 {
		t.Errorf("%+v", a)
	}
	if _, a := askedFor(t, replay.Options{Candidate: set}, text); len(a.Notes) != 1 || !strings.HasPrefix(a.Notes[0], "api.tenant: ") {
		t.Errorf("notes are %q", a.Notes)
	}
}

// TestAsksNeedWholeRecords: what a replay refuses, is refused here, too.
func TestAsksNeedWholeRecords(t *testing.T) {
	set := askRules(t, "domain: api\nmatch: path\ndescriptors:\n- {key: user, rate_limit: {unit: second, requests_per_unit: 1}}\n")
	text := strings.Replace(anEvent(0, "user:ann"), `"sample_rate":1`, `"sample_rate":10`, 1)
	o := replay.Options{Candidate: set, Inputs: []replay.Input{textInput("events", text, events(nil))}}
	var lack *replay.LackError
	if _, err := replay.Asks(t.Context(), o, func(*replay.Ask) {}); !errors.As(err, &lack) || lack.Lacks != replay.Sampled {
		t.Errorf("%v", err)
	}
	o.Partial = true
	a, err := replay.Asks(t.Context(), o, func(*replay.Ask) {})
	if err != nil || a.Lacks["sampled"] != 1 || len(a.Notes) != 1 {
		t.Errorf("%+v %v", a, err)
	}
}
