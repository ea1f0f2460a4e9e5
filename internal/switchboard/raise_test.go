package switchboard

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// Raises are told when they begin to be in force, when they are others, and when they end
// before their time, once the rules that they are for are in force; those of sensitive
// rules never are.
func TestD6RaisesAreTold(t *testing.T) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	limiter, err := headgate.New(headgate.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	set, err := rulefile.Load([]rulefile.File{{Name: "r.yaml", Data: []byte(`
domain: d
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: login, sensitive: true, rate_limit: {unit: minute, requests_per_unit: 10}}
`)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter.SetRules(set)
	f := NewInForce(limiter, slog.New(slog.DiscardHandler))
	var told []string
	f.OnRaise = func(r Raise) {
		told = append(told, fmt.Sprintf("%s/%s +%d ended=%v by %s", r.Domain, r.Target, r.Raise, r.Ended, r.Actor))
	}
	now := time.Now()
	raise := func(rule string, by int, until time.Time, who string) sqltenant.Document {
		return sqltenant.Document{Kind: sqltenant.SwitchDocument, Name: "raise:" + rule, UpdatedBy: who,
			Text: fmt.Sprintf(`{"target":"raise:%s","state":"raised","raise":%d,"until":%q}`, rule, by, until.Format(time.RFC3339Nano))}
	}
	later := now.Add(time.Hour)
	for _, step := range []struct {
		what string
		docs []sqltenant.Document
		want []string
	}{
		{"raised", []sqltenant.Document{raise("d.user", 20, later, "ann"), raise("d.login", 20, later, "ann"), raise("d.gone", 20, later, "ann")}, []string{"d/raise:d.user +20 ended=false by ann"}},
		{"the same", []sqltenant.Document{raise("d.user", 20, later, "ann")}, nil},
		{"more", []sqltenant.Document{raise("d.user", 50, later, "ben")}, []string{"d/raise:d.user +50 ended=false by ben"}},
		{"cleared", nil, []string{"d/raise:d.user +50 ended=true by ben"}},
		{"over", []sqltenant.Document{raise("d.user", 50, now, "ben")}, nil},
		{"no raise", []sqltenant.Document{{Kind: sqltenant.SwitchDocument, Name: "rule:d.user", Text: `{"target":"rule:d.user","state":"off"}`}}, nil},
	} {
		told = nil
		if refused := f.Put(step.docs); refused != nil {
			t.Fatal(refused)
		}
		if len(told) > 0 {
			t.Errorf("%s: told before the rules may be there: %v", step.what, told)
		}
		f.TellStrays()
		if !slices.Equal(told, step.want) {
			t.Errorf("%s: told %s, want %s", step.what, strings.Join(told, "; "), strings.Join(step.want, "; "))
		}
	}
}

// What is in force is told with who has set it and when, in the order of targets; what has ended
// is not.
func TestHeldSwitchesNameWhoHasSetThem(t *testing.T) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	limiter, err := headgate.New(headgate.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	f := NewInForce(limiter, slog.New(slog.DiscardHandler))
	if held := f.Held(); held != nil {
		t.Errorf("nothing is switched: %v", held)
	}
	at := time.Now().Add(-time.Hour)
	doc := func(target, rest, who string) sqltenant.Document {
		return sqltenant.Document{Kind: sqltenant.SwitchDocument, Name: target, UpdatedBy: who, UpdatedAt: at, Text: fmt.Sprintf(`{"target":%q,%s}`, target, rest)}
	}
	f.Put([]sqltenant.Document{
		doc("rule:d.user", `"state":"off"`, "ann"), doc("all", `"state":"shadow","reason":"deploy"`, "ben"),
		doc("rule:d.over", fmt.Sprintf(`"state":"off","until":%q`, at.Format(time.RFC3339Nano)), "ann"),
	})
	held := f.Held()
	if len(held) != 2 || held[0].Target.String() != "all" || held[0].Actor != "ben" || held[0].Reason != "deploy" || held[1].Actor != "ann" || !held[1].At.Equal(at) {
		t.Errorf("held: %+v", held)
	}
}
