package quotas

import (
	"errors"
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
	tier := []tenant.Assignment{{Tier: "pro"}}
	accounts := map[tenant.Subject]tenant.Account{}
	for _, r := range []sqltenant.Record{
		all,
		{Subject: tenant.Subject{Key: "api_key", Value: hasher(t).APIKey("k")}, Tiers: tier},
		{Subject: tenant.Subject{Key: "org", Value: "a:b ü"}, Tiers: tier},
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

// sorted puts the parts of an account in one order.
func sorted(a tenant.Account) tenant.Account {
	slices.SortFunc(a.Overrides, func(x, y tenant.Override) int { return strings.Compare(x.Descriptor, y.Descriptor) })
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
		if err := WriteFile(path, s, Head{Version: 7, SavedAt: savedAt}); err != nil {
			t.Fatal(err)
		}
	}
	got, head, err := ReadFile(path)
	if err != nil || head != (Head{7, len(want), savedAt}) {
		t.Fatalf("%+v, %v", head, err)
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

func TestReadFileRefuses(t *testing.T) {
	const line = `{"name":"tenant:acme","tier":"pro"}` + "\n"
	for want, text := range map[string]string{
		"0 accounts, but the first line says 1": `{"version":1,"accounts":1,"saved_at":"2026-01-02T03:04:05Z"}` + "\n",
		"2 accounts, but the first line says 1": `{"version":1,"accounts":1,"saved_at":"2026-01-02T03:04:05Z"}` + "\n" + line + line,
		"line 1: ":                              line,
		"line 2: ":                              `{"version":1,"accounts":1,"saved_at":"2026-01-02T03:04:05Z"}` + "\n" + line[:20],
		"line 3: unit: ":                        `{"version":1,"accounts":2,"saved_at":"2026-01-02T03:04:05Z"}` + "\n" + line + `{"name":"tenant:b","overrides":[{"descriptor":"default","requests_per_unit":1,"unit":"x"}]}`,
		"line 2: an API key":                    `{"version":1,"accounts":1,"saved_at":"2026-01-02T03:04:05Z"}` + "\n" + `{"name":"sk_live_abcd","tier":"pro"}`,
		"token too long":                        `{"version":1,"accounts":1,"saved_at":"2026-01-02T03:04:05Z"}` + "\n" + strings.Repeat(" ", MaxDocument+2),
	} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		want = strings.Replace(want, "unit: ", "overrides[0].unit: ", 1)
		if got, _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v, %v, want %q", got, err, want)
		}
	}
}

// FuzzReadFile: no bytes are a file that cannot be written again.
func FuzzReadFile(f *testing.F) {
	f.Add(`{"version":1,"accounts":1,"saved_at":"2026-01-02T03:04:05Z"}` + "\n" + `{"name":"tenant:acme","tier":"pro","overrides":[{"descriptor":"default","requests_per_unit":1,"unit":"hour"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		accounts, _, err := read(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, a := range accounts {
			if err := a.Validate(); err != nil {
				t.Errorf("%+v: %v", a, err)
			}
			if _, err := lineOfAccount(&a); err != nil {
				t.Errorf("%+v: %v", a, err)
			}
		}
	})
}
