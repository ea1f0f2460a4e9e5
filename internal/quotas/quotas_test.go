package quotas

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

func hasher(t testing.TB) *identity.Hasher {
	t.Helper()
	h, err := identity.NewHasher(identity.NewSecret("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestParseName(t *testing.T) {
	h := hasher(t)
	hashed := h.APIKey("sk_live_abcd")
	for text, want := range map[string]Name{
		"sk_live_abcd":   {tenant.Subject{Key: "api_key", Value: hashed}, "abcd"},
		"short":          {tenant.Subject{Key: "api_key", Value: h.APIKey("short")}, ""},
		"hash:" + hashed: {tenant.Subject{Key: "api_key", Value: hashed}, ""},
		"tenant:acme":    {tenant.Subject{Key: "tenant", Value: "acme"}, ""},
		"tenant:a:b":     {tenant.Subject{Key: "tenant", Value: "a:b"}, ""},
		"entry:org:a:b":  {tenant.Subject{Key: "org", Value: "a:b"}, ""},
		"entry:tenant:x": {tenant.Subject{Key: "tenant", Value: "x"}, ""},
	} {
		got, err := ParseName(text, h)
		if got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
		if again, err := ParseName(NameText(got.Subject), nil); again.Subject != got.Subject || err != nil {
			t.Errorf("%s: %s names %+v, %v", text, NameText(got.Subject), again, err)
		}
	}
	for _, text := range []string{"", "hash:", "hash:short", "hash:" + hashed[1:] + "!", "tenant:", "tenant:" + strings.Repeat("x", 300), "entry:", "entry:org", "entry:org:", "entry::x", "entry:api_key:sk_live_abcd", strings.Repeat("k", 2000)} {
		if got, err := ParseName(text, h); err == nil {
			t.Errorf("%q: %+v", text, got)
		} else if len(text) > 6 && strings.Contains(err.Error(), text[5:]) {
			t.Errorf("%q: the error holds it: %v", text, err)
		}
	}
	if _, err := ParseName("sk_live_abcd", nil); err == nil || strings.Contains(err.Error(), "abcd") {
		t.Errorf("without a hasher: %v", err)
	}
}

func TestMasked(t *testing.T) {
	for want, r := range map[string]sqltenant.Record{
		"****abcd":    {Subject: tenant.Subject{Key: "api_key", Value: "h"}, Last4: "abcd"},
		"****":        {Subject: tenant.Subject{Key: "api_key", Value: "h"}},
		"tenant:acme": {Subject: tenant.Subject{Key: "tenant", Value: "acme"}},
	} {
		if got := Masked(&r); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func platformTiers(t testing.TB) *tenant.Tiers {
	t.Helper()
	tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "free"}, {Name: "pro"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	return tiers
}

func TestRecordRefuses(t *testing.T) {
	override := func(fields string) string { return `{"overrides":[{"descriptor":"default",` + fields + `}]}` }
	for text, want := range map[string]string{
		``:                                       ": wants a value, got the end of the body",
		`[]`:                                     ": a list is not an object",
		`{} {}`:                                  "text after the end of the JSON value",
		`{"teir":"pro"}`:                         `teir: no such field`,
		`{"tier":7}`:                             "tier: the number 7 is not text",
		`{"tier":"gold"}`:                        `tier: unknown tier "gold"; hint: one of free, pro`,
		`{"tier":"pro","tiers":[{"tier":""}]}`:   "tiers[0].tier: unknown tier",
		`{"expires_at":"2026-01-01T00:00:00Z"}`:  "tier: missing",
		`{"tier":"pro","expires_at":"soon"}`:     "expires_at: not a time; hint",
		`{"tier":"pro","tiers":[{},{"tire":1}]}`: "tiers[1].tire: no such field",
		`{"tier":"pro","tiers":[{},[]]}`:         "tiers[1]: a list is not an object",
		`{"tier":{}}`:                            "tier: an object is not text",
		`{"overrides":[{"unlimited":true},{"unit":7}]}`:        "overrides[1].unit: the number 7 is not text",
		`{"overrides":[{"unlimited":"yes"}]}`:                  "overrides[0].unlimited: text is not true or false",
		`{"overrides":[{"effective_at":7}]}`:                   "overrides[0].effective_at: the number 7 is not a time",
		`{"overrides":true}`:                                   "overrides: true is not a list",
		`{"OVERRIDES":[]}`:                                     "OVERRIDES: no such field; hint: names are in lower case: overrides",
		`{"overrides":[{"unit":null,"burst":false}]}`:          "overrides[0].burst: false is not a whole number",
		`{"overrides":[{"unit":"day","unit":"hour"}]}`:         "overrides[0].unit: given twice",
		"{\"tier\":\"\xff\"}":                                  "tier: not UTF-8",
		`{"tier":"\ud800"}`:                                    "tier: ",
		`null`:                                                 ": null is not an object",
		`{"\u001b[2J\u202e` + strings.Repeat("x", 99) + `":1}`: `\x1b[2J\u202exxx`,
		`{"tier":"pro"`:                                        ": wants a comma or }, got the end",
		`{"tier":"pro",}`:                                      "wants a quoted name",
		`{"tier":"pro","effective_at":"2026-01-02T00:00:00Z","expires_at":"2026-01-01T00:00:00Z"}`: "ends before it begins",
		override(`"unit":"minute"`):                                                                                 "overrides[0].requests_per_unit: missing",
		override(`"requests_per_unit":1`):                                                                           "overrides[0].unit: unit",
		override(`"requests_per_unit":1,"unit":"fortnight"`):                                                        `overrides[0].unit: unit "fortnight"`,
		override(`"requests_per_unit":-1,"unit":"minute"`):                                                          "overrides[0].requests_per_unit: -1 is negative",
		override(`"requests_per_unit":9007199254740993,"unit":"minute"`):                                            "overrides[0].requests_per_unit: ",
		override(`"requests_per_unit":1.5,"unit":"minute"`):                                                         "overrides[0].requests_per_unit: the number 1.5 is not a whole number",
		override(`"requests_per_unit":1e400,"unit":"minute"`):                                                       "overrides[0].requests_per_unit: the number 1e400 is not a whole number",
		override(`"requests_per_unit":1,"unit":"minute","burst":3`):                                                 "overrides[0].burst: ",
		override(`"requests_per_unit":1,"unit":"minute","algorithm":"best"`):                                        "overrides[0].algorithm: ",
		override(`"requests_per_unit":1,"unit":"minute","algorithm":"ban"`):                                         "overrides[0].",
		override(`"limits":[]`):                                                                                     "overrides[0].limits: 0 of them",
		override(`"limits":[{"unit":"minute"}]`):                                                                    "overrides[0].limits[0].requests_per_unit: missing",
		override(`"limits":[{"requests_per_unit":1,"unit":"minute"},{"requests_per_unit":2,"unit":"60s"}]`):         "overrides[0].limits[1].unit: a second limit per minute",
		override(`"limits":[{"requests_per_unit":1,"unit":"hour"},{"requests_per_unit":2,"unit":"day","burst":3}]`): "overrides[0].limits[1].burst: ",
		override(`"limits":[{"requests_per_unit":1,"unit":"hour","expires_at":"2026-01-01T00:00:00Z"}]`):            "overrides[0].limits[0].expires_at: no such field",
		override(`"limits":[` + strings.Repeat(`{"requests_per_unit":1,"unit":"hour"},`, 8) + `{}]`):                "overrides[0].limits: 9 of them",
		override(`"unit":"hour","limits":[{"requests_per_unit":1,"unit":"hour"}]`):                                  "overrides[0].limits: they stand alone",
		override(`"unlimited":true,"limits":[{"requests_per_unit":1,"unit":"hour"}]`):                               "overrides[0].unlimited: stands alone",
		override(`"requests_per_unit":1,"unlimited":true`):                                                          "overrides[0].unlimited: stands alone",
		override(`"unlimited":true},{"descriptor":"","unlimited":true`):                                             "override 1: a second one of default",
		`{"overrides":[{"descriptor":"orders","unlimited":true}]}`:                                                  "overrides[0].descriptor: ",
	} {
		d, err := Parse([]byte(text))
		r := sqltenant.Record{Subject: tenant.Subject{Key: "api_key", Value: "h"}, Last4: "abcd", Tiers: []tenant.Assignment{{Tier: "free"}}}
		before := r
		if err == nil {
			err = d.Record(&r, platformTiers(t))
		}
		var field *FieldError
		if !errors.As(err, &field) || !strings.Contains(": "+err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if !reflect.DeepEqual(r, before) {
			t.Errorf("%s: left %+v", text, r)
		}
	}
	if _, err := Parse(make([]byte, MaxDocument+1)); err == nil {
		t.Error("a large document was taken")
	}
}

// TestDocumentsRoundTrip: what is exported and imported again is the same account.
func TestDocumentsRoundTrip(t *testing.T) {
	instant := rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMicro(rapid.Int64Range(1, 1<<50).Draw(t, "us")).UTC()
	})
	term := rapid.Custom(func(t *rapid.T) (m tenant.Term) {
		if rapid.Bool().Draw(t, "begins") {
			m.From = instant.Draw(t, "from")
		}
		if rapid.Bool().Draw(t, "ends") {
			m.Until = instant.Draw(t, "until")
		}
		return m
	}).Filter(func(m tenant.Term) bool { return m.Until.IsZero() || m.From.Before(m.Until) })
	override := rapid.Custom(func(t *rapid.T) sqltenant.Override {
		o := sqltenant.Override{Descriptor: rapid.SampledFrom([]string{"", "endpoint:POST /v1/orders", `a:b\,c`}).Draw(t, "descriptor"), Term: term.Draw(t, "term")}
		if o.Unlimited = rapid.Bool().Draw(t, "unlimited"); !o.Unlimited {
			o.RequestsPerUnit = rapid.Int64Range(1, 1<<40).Draw(t, "quota")
			o.Unit = rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 90 * time.Second, 36 * time.Hour, 30 * 24 * time.Hour}).Draw(t, "unit")
			if o.Algorithm = rapid.SampledFrom([]limit.Algorithm{limit.SlidingWindow, limit.TokenBucket}).Draw(t, "algorithm"); o.Algorithm == limit.TokenBucket {
				o.Burst = rapid.Int64Range(0, 100).Draw(t, "burst")
			}
			for _, unit := range []time.Duration{2 * time.Hour, 7 * 24 * time.Hour} {
				if rapid.Bool().Draw(t, "more") {
					o.More = append(o.More, sqltenant.OverrideLimit{RequestsPerUnit: rapid.Int64Range(1, 1<<40).Draw(t, "further"), Unit: unit, Algorithm: limit.SlidingWindow})
				}
			}
		}
		return o
	})
	rapid.Check(t, func(t *rapid.T) {
		r := sqltenant.Record{
			Subject: tenant.Subject{Key: "tenant", Value: "acme"}, Last4: "abcd",
			Overrides: rapid.SliceOfN(override, 0, 4).Draw(t, "overrides"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "tiers") {
			r.Tiers = append(r.Tiers, tenant.Assignment{Tier: rapid.SampledFrom([]string{"free", "pro"}).Draw(t, "tier"), Term: term.Draw(t, "term")})
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "top-ups") {
			begin := tenant.EarliestTopUp.Add(time.Duration(rapid.Int64Range(0, 1<<50).Draw(t, "begin")) * time.Microsecond)
			r.TopUps = append(r.TopUps, tenant.TopUp{
				ID: string(rune('a' + i)), Descriptor: rapid.SampledFrom([]string{"", "op:x"}).Draw(t, "descriptor"), Hits: rapid.Int64Range(1, limit.MaxQuota).Draw(t, "hits"),
				Term: tenant.Term{From: begin, Until: begin.Add(time.Duration(rapid.Int64Range(1, int64(tenant.MaxTopUpTerm/time.Microsecond)).Draw(t, "lasts")) * time.Microsecond)},
			})
		}
		if r.Validate() != nil {
			t.Skip("not an account")
		}
		line := LineOf(&r)
		text, err := line.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		read, err := ParseLine(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		name, err := ParseName(read.Name, nil)
		if err != nil {
			t.Fatal(err)
		}
		again := sqltenant.Record{Subject: name.Subject, Last4: read.Last4}
		if err := read.Record(&again, nil); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if a, b := canonical(&r), canonical(&again); a != b {
			t.Fatalf("became %s, was %s", b, a)
		}
	})
}

// canonical is the export of r, whose times are UTC.
func canonical(r *sqltenant.Record) string {
	text, err := json.Marshal(LineOf(r))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"tier":"pro","overrides":[{"descriptor":"endpoint:POST /v1/orders","requests_per_unit":70,"unit":"minute","expires_at":"2026-02-01T00:00:00Z"}]}`))
	f.Add([]byte(`{"tiers":[{"tier":"free","effective_at":"2026-01-01T00:00:00+02:00"}]}`))
	f.Add([]byte(`{"top_ups":[{"descriptor":"default","hits":500,"expires_at":"2026-12-01T00:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse(data)
		if err != nil {
			var field *FieldError
			if !errors.As(err, &field) {
				t.Errorf("%v is no FieldError", err)
			}
			return
		}
		d = d.Filled(nil, noon)
		r := sqltenant.Record{Subject: tenant.Subject{Key: "tenant", Value: "acme"}}
		if err := d.Record(&r, nil); err != nil {
			var field *FieldError
			if !errors.As(err, &field) {
				t.Errorf("%v is no FieldError", err)
			}
			return
		}
		if err := r.Validate(); err != nil {
			t.Errorf("%s became an account that cannot be: %v", data, err)
		}
	})
}
