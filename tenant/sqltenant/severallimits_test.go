package sqltenant_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// TestOverridesOfSeveralLimits: they are kept whole, all of them count, and a change of one
// alone is a change. A text of somebody else that is no list of limits leaves out that
// override and nothing else.
func TestOverridesOfSeveralLimits(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		several := perMinute(tenant.Default, 200)
		several.More = []sqltenant.OverrideLimit{
			{RequestsPerUnit: 5000, Unit: time.Hour, Algorithm: limit.SlidingWindow},
			{RequestsPerUnit: 9, Unit: time.Second, Algorithm: limit.TokenBucket, Burst: 20},
		}
		put(t, d, key("a"), "pro", several, perMinute("op:x", 7))
		kept := func() sqltenant.Record {
			t.Helper()
			r, err := open(t, dsn).Get(t.Context(), key("a")) // what another node sees
			if err != nil || len(r.Overrides)+len(r.Invalid) != 2 {
				t.Fatalf("%+v, %v", r, err)
			}
			return r
		}
		first := kept().Overrides[0]
		if !reflect.DeepEqual(first.Limits(), several.Limits()) {
			t.Errorf("%+v, want %+v", first.Limits(), several.Limits())
		}
		if r := put(t, d, key("a"), "pro", several, perMinute("op:x", 7)); r.Version != 1 {
			t.Errorf("the same again is version %d", r.Version)
		}
		several.More = []sqltenant.OverrideLimit{several.More[1], {RequestsPerUnit: 6000, Unit: time.Hour, Algorithm: limit.SlidingWindow}}
		put(t, d, key("a"), "pro", several, perMinute("op:x", 7))
		if r := kept(); r.Version != 2 || r.Overrides[0].ID != first.ID || !reflect.DeepEqual(r.Overrides[0].Limits(), several.Limits()) {
			t.Errorf("after a change %+v", r)
		}
		entries, err := d.Changes(t.Context(), 1, 10)
		if err != nil || len(entries) != 1 || !strings.Contains(entries[0].Before, `{"requests_per_unit":5000,"unit":"hour","algorithm":"sliding_window"}`) || !strings.Contains(entries[0].After, `"requests_per_unit":6000`) {
			t.Errorf("the log of changes: %+v, %v", entries, err)
		}
		if n, err := d.Verify(t.Context()); n != 2 || err != nil {
			t.Errorf("Verify: %d, %v", n, err)
		}

		resolved := func() (*tenant.Quota, string) {
			t.Helper()
			var told []string
			w := sqltenant.NewWatcher(d, someTiers(t), sqltenant.WatcherOptions{OnError: func(err error) { told = append(told, err.Error()) }})
			if err := w.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			s, _ := w.Snapshot()
			r := s.Resolve(key("a"), nil, 0)
			if r.Tier != "pro" {
				t.Errorf("the tier is %q", r.Tier)
			}
			return r.Quota, strings.Join(told, "\n")
		}
		if q, told := resolved(); len(q.Limits) != 3 || q.Limits[1].Quota != 9 || q.Limits[1].Burst != 20 || q.Limits[2].Name != "default/hour" || told != "" {
			t.Errorf("%+v, %s", q, told)
		}
		for _, text := range []string{"[{]", `[{"requests_per_unit":1,"unit":"fortnight"}]`} {
			tamper(t, dsn, `UPDATE quota_overrides SET more_limits = '`+text+`' WHERE descriptor = ''`)
			if r := kept(); len(r.Invalid) != 1 || len(r.Tiers) != 1 || r.Overrides[0].Descriptor != "op:x" {
				t.Errorf("%s: %+v", text, r)
			}
			if q, told := resolved(); q != nil && len(q.Limits) == 3 || !strings.Contains(told, "quota_overrides.more_limits: ") {
				t.Errorf("%s: %+v, %q", text, q, told)
			}
		}
		// A list that others have written, with what may be left out.
		tamper(t, dsn, `UPDATE quota_overrides SET more_limits = '[{"requests_per_unit": 3, "unit": "day"}]' WHERE descriptor = ''`)
		if q, told := resolved(); len(q.Limits) != 2 || q.Limits[1].Period != 24*time.Hour || told != "" {
			t.Errorf("%+v, %s", q, told)
		}
	})
}
