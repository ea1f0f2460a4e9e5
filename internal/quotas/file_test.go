package quotas

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

var savedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// someAccounts are those of records with every algorithm and every kind of subject.
func someAccounts(t *testing.T) map[tenant.Subject]tenant.Account {
	t.Helper()
	all := sqltenant.Record{Subject: tenant.Subject{Key: "tenant", Value: "acme"}, Tiers: []tenant.Assignment{
		{Tier: "pro"}, {Tier: "free", Term: tenant.Term{From: savedAt, Until: savedAt.Add(time.Hour)}},
	}}
	unlimited := sqltenant.Override{Descriptor: "op:none", Unlimited: true, Term: tenant.Term{From: savedAt.Add(time.Microsecond)}}
	all.Overrides = append(all.Overrides, unlimited)
	all.TopUps = []tenant.TopUp{
		{ID: "order-1", Descriptor: tenant.Default, Hits: 500, Term: tenant.Term{From: savedAt, Until: savedAt.Add(time.Hour)}},
		{ID: "order-2", Descriptor: "op:x", Hits: 1, Term: tenant.Term{From: savedAt.Add(time.Microsecond), Until: savedAt.Add(time.Minute)}},
	}
	for _, name := range []string{"sliding_window", "fixed_window", "sliding_log", "token_bucket", "leaky_bucket", "leaky_queue", "gcra"} {
		algorithm, err := limit.ParseAlgorithm(name)
		if err != nil {
			t.Fatal(err)
		}
		o := sqltenant.Override{Descriptor: "op:" + name, Algorithm: algorithm, RequestsPerUnit: 70, Unit: time.Minute}
		if algorithm == limit.TokenBucket || algorithm == limit.GCRA {
			o.Burst = 9
		}
		all.Overrides = append(all.Overrides, o)
	}
	all.Overrides = append(all.Overrides, sqltenant.Override{Descriptor: "op:several", RequestsPerUnit: 200, Unit: time.Minute, More: []sqltenant.OverrideLimit{
		{RequestsPerUnit: 5000, Unit: time.Hour, Algorithm: limit.LeakyBucket}, {RequestsPerUnit: 9, Unit: time.Second, Algorithm: limit.TokenBucket, Burst: 20},
	}})
	tier := []tenant.Assignment{{Tier: "pro"}}
	accounts := map[tenant.Subject]tenant.Account{}
	for _, r := range []sqltenant.Record{
		all,
		{Subject: tenant.Subject{Key: "api_key", Value: hasher(t).APIKey("k")}, Tiers: tier},
		{Subject: tenant.Subject{Key: "org", Value: "a:b ü"}, Tiers: tier},
		{Subject: tenant.Subject{Key: "tenant", Value: "topped"}, TopUps: all.TopUps[:1]},
	} {
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		a, err := r.Account()
		if err != nil {
			t.Fatal(err)
		}
		accounts[a.Subject] = a
	}
	return accounts
}

// someSettings are documents of all kinds, and rows that say all or next to nothing.
func someSettings() *sqltenant.Settings {
	route, method := "/v1/<orders>", "POST"
	long := strings.Repeat("\x01", sqltenant.MaxDocument) // six bytes each in JSON
	return &sqltenant.Settings{
		Documents: []sqltenant.Document{
			{Kind: sqltenant.RulesDocument, Name: "api", Text: "domain: api # ü\n", Version: 3, UpdatedAt: savedAt.Add(time.Microsecond), UpdatedBy: "ann"},
			{Kind: sqltenant.RulesDocument, Name: "long", Text: long, Version: -1},
			{Kind: sqltenant.TiersDocument, Name: sqltenant.DefaultName, Text: "tiers: {}", Version: 4, UpdatedAt: savedAt, UpdatedBy: "ann"},
			{Kind: sqltenant.SwitchDocument, Name: "rule:x", Text: `{"target":"rule:x"}`, Version: 5, UpdatedAt: savedAt, UpdatedBy: "ann"},
		},
		RuleRows: []sqltenant.RuleRow{
			{ID: 1, Scope: "ip", LimitCount: 10, WindowMS: 1000},
			{
				ID: 2, Scope: "apikey", Route: &route, Method: &method, LimitCount: -1, WindowMS: 1, WeightField: "cost", Algorithm: "gcra",
				FailureMode: "closed", Burst: 5, Active: true, CreatedAt: savedAt, UpdatedAt: savedAt,
			},
		},
		Version: 6,
	}
}

// sorted puts the parts of an account in one order.
func sorted(a tenant.Account) tenant.Account {
	slices.SortFunc(a.Overrides, func(x, y tenant.Override) int { return strings.Compare(x.Descriptor, y.Descriptor) })
	slices.SortFunc(a.TopUps, func(x, y tenant.TopUp) int { return strings.Compare(x.ID, y.ID) })
	slices.SortFunc(a.Tiers, func(x, y tenant.Assignment) int { return x.Term.From.Compare(y.Term.From) })
	return a
}

func TestFileRoundTrips(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accounts.jsonl")
	if _, _, err := ReadFile(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	want := someAccounts(t)
	var list []tenant.Account
	for _, a := range want {
		list = append(list, a)
	}
	unnamed := tenant.Account{Subject: tenant.Subject{Key: "api_key", Value: "no hash"}, Tiers: list[0].Tiers}
	s := tenant.NewSnapshot(new(tenant.Tiers), slices.Values(append(list, unnamed)))
	for range 2 { // the second time in place of the first
		if err := WriteFile(path, s, Head{Version: 7, SavedAt: savedAt, Settings: someSettings()}); err != nil {
			t.Fatal(err)
		}
	}
	got, head, err := ReadFile(path)
	if err != nil || head.Version != 7 || head.Accounts != len(want) || !head.SavedAt.Equal(savedAt) {
		t.Fatalf("%+v, %v", head, err)
	}
	if settings := someSettings(); !reflect.DeepEqual(head.Settings, settings) {
		t.Errorf("settings %.2000v, want %.2000v", head.Settings, settings)
	}
	for _, a := range got {
		if before := sorted(want[a.Subject]); !reflect.DeepEqual(sorted(a), before) {
			t.Errorf("%+v, want %+v", a, before)
		}
		delete(want, a.Subject)
	}
	if len(want) != 0 {
		t.Errorf("missing: %v", want)
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("files left: %v", files)
	}
	if err := WriteFile(filepath.Join(path, "x"), s, Head{}); err == nil {
		t.Error("a file below a file was written")
	}
}

// TestFileWithoutSettings: none known and none there are not the same.
func TestFileWithoutSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accounts.jsonl")
	s := tenant.NewSnapshot(new(tenant.Tiers), slices.Values([]tenant.Account(nil)))
	for _, want := range []*sqltenant.Settings{nil, {Version: 3}} {
		if err := WriteFile(path, s, Head{Version: 7, SavedAt: savedAt, Settings: want}); err != nil {
			t.Fatal(err)
		}
		if _, head, err := ReadFile(path); err != nil || !reflect.DeepEqual(head.Settings, want) {
			t.Errorf("%+v, %v, want %+v", head.Settings, err, want)
		}
	}
}

// TestFirstFormat: a file that was written before there were settings is read.
func TestFirstFormat(t *testing.T) {
	const text = `{"version":4,"accounts":2,"saved_at":"2026-01-02T03:04:05Z"}
{"name":"tenant:acme","tier":"pro","overrides":[{"descriptor":"default","requests_per_unit":1,"unit":"hour"}]}
{"name":"tenant:b","tier":"free"}
`
	accounts, head, err := Decode(strings.NewReader(text))
	if err != nil || !reflect.DeepEqual(head, Head{Version: 4, Accounts: 2, SavedAt: savedAt}) || len(accounts) != 2 ||
		accounts[0].Overrides[0].Quota.Limits[0].Quota != 1 || accounts[1].Tiers[0].Tier != "free" {
		t.Errorf("%+v, %+v, %v", accounts, head, err)
	}
}

// TestLargeAccount: an account that is as large as one may be is kept.
func TestLargeAccount(t *testing.T) {
	r := sqltenant.Record{Subject: tenant.Subject{Key: "tenant", Value: "acme"}}
	for i := range tenant.MaxOverrides {
		d := fmt.Sprintf("endpoint:%s%d", strings.Repeat("<", 240), i)
		r.Overrides = append(r.Overrides, sqltenant.Override{Descriptor: d, RequestsPerUnit: 1, Unit: time.Minute})
	}
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	a, err := r.Account()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "accounts.jsonl")
	if err := WriteFile(path, tenant.NewSnapshot(new(tenant.Tiers), slices.Values([]tenant.Account{a})), Head{SavedAt: savedAt}); err != nil {
		t.Fatal(err)
	}
	if got, _, err := ReadFile(path); err != nil || len(got) != 1 || len(got[0].Overrides) != tenant.MaxOverrides {
		t.Errorf("%d accounts, %v", len(got), err)
	}
}

func TestReadFileRefuses(t *testing.T) {
	const (
		head = `{"version":1,"accounts":1,"saved_at":"2026-01-02T03:04:05Z"}` + "\n"
		line = `{"name":"tenant:acme","tier":"pro"}` + "\n"
		set  = `{"format":2,"version":1,"accounts":0,"saved_at":"2026-01-02T03:04:05Z","settings":{"version":1,"documents":1,"rule_rows":1}}` + "\n"
		doc  = `{"kind":"rules","name":"a","text":"x","version":1,"updated_at":"2026-01-02T03:04:05Z","updated_by":"ann"}` + "\n"
		row  = `{"id":1,"scope":"ip","limit_count":1,"window_ms":1,"is_active":true,"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"}` + "\n"
	)
	if _, _, err := Decode(strings.NewReader(set + doc + row)); err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string]string{
		"it ends before line 2":                 head,
		"more than the 2 lines":                 head + line + line,
		"line 1: ":                              line,
		"line 2: name: a string without an end": head + line[:20],
		"line 3: overrides[0].unit: ":           strings.Replace(head, `"accounts":1`, `"accounts":2`, 1) + line + `{"name":"tenant:b","overrides":[{"descriptor":"default","requests_per_unit":1,"unit":"x"}]}`,
		"line 2: an API key":                    head + `{"name":"sk_live_abcd","tier":"pro"}`,
		"token too long":                        head + strings.Repeat(" ", maxLine),
		"format 3 is not known":                 strings.Replace(set, `"format":2`, `"format":3`, 1) + doc + row,
		"line 1: settings":                      strings.Replace(set, `"format":2,`, ``, 1) + doc + row,
		"at most 100000 rows":                   strings.Replace(set, `"rule_rows":1`, `"rule_rows":100001`, 1) + doc + row,
		"line 1: a version":                     strings.Replace(set, `"accounts":0`, `"accounts":-1`, 1) + doc + row,
		"it ends before line 3":                 set + doc,
		"more than the 3 lines":                 set + doc + row + row,
		"line 2: id: no such field":             set + row + row,
		"line 3: kind: no such field":           set + doc + doc,
		"of 1048576 bytes":                      set + strings.Replace(doc, `"x"`, `"`+strings.Repeat("x", sqltenant.MaxDocument+1)+`"`, 1) + row,
		"line 2: top_ups[0].hits":               head + `{"name":"tenant:acme","top_ups":[{"id":"a","descriptor":"default","hits":0}]}`,
	} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v, %v, want %q", got, err, want)
		}
	}
}

// FuzzReadFile: whatever is read can be written, and is then read as it was.
func FuzzReadFile(f *testing.F) {
	f.Add(`{"version":1,"accounts":1,"saved_at":"2026-01-02T03:04:05Z"}` + "\n" + `{"name":"tenant:acme","tier":"pro","overrides":[{"descriptor":"default","requests_per_unit":1,"unit":"hour"}]}`)
	f.Add(`{"format":2,"version":1,"accounts":1,"saved_at":"2026-01-02T03:04:05Z","settings":{"version":3,"documents":1,"rule_rows":1}}` + "\n" +
		`{"name":"tenant:acme","top_ups":[{"id":"a","descriptor":"default","hits":5,"effective_at":"2026-01-02T03:04:05Z","expires_at":"2026-02-02T03:04:05Z"}]}` + "\n" +
		`{"kind":"rules","name":"a","text":"x","version":1,"updated_at":"2026-01-02T03:04:05Z","updated_by":"ann"}` + "\n" +
		`{"id":1,"scope":"ip","route":"/a","limit_count":1,"window_ms":1,"is_active":true,"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"}`)
	f.Fuzz(func(t *testing.T, text string) {
		accounts, head, err := Decode(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, a := range accounts {
			if err := a.Validate(); err != nil {
				t.Errorf("%+v: %v", a, err)
			}
		}
		s := tenant.NewSnapshot(new(tenant.Tiers), slices.Values(accounts))
		var file strings.Builder
		head.Accounts = s.Len()
		if err := Encode(&file, s.All(), head); err != nil {
			t.Fatalf("%+v: %v", accounts, err)
		}
		again, headAgain, err := Decode(strings.NewReader(file.String()))
		if err != nil || len(again) != s.Len() || !reflect.DeepEqual(head.Settings, headAgain.Settings) || head.Version != headAgain.Version {
			t.Errorf("%+v, %+v, %v, want %+v, %+v", again, headAgain, err, accounts, head)
		}
		before := map[tenant.Subject]tenant.Account{}
		for a := range s.All() {
			before[a.Subject] = sorted(a)
		}
		for _, a := range again {
			if want := before[a.Subject]; !reflect.DeepEqual(sorted(a), want) {
				t.Errorf("%+v, want %+v", a, want)
			}
		}
	})
}
