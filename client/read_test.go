package client

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"
)

var testNow = time.Date(2024, 1, 23, 8, 53, 38, 0, time.UTC) // 1706000018

// header makes a header of lines "Name: value", as an HTTP client would.
func header(text string) http.Header {
	h := http.Header{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\n"), ": "); ok {
			h.Add(strings.TrimSpace(name), value)
		}
	}
	return h
}

func TestRead(t *testing.T) {
	policies := []Policy{{Name: "default", Quota: 100, Window: time.Minute}, {Name: "writes", Quota: 20, Window: time.Minute}}
	unnamed := func(limit, remaining int64, reset time.Duration) []Level {
		return []Level{{Limit: limit, Remaining: remaining, ResetAfter: reset, ResetKnown: true}}
	}
	cases := []struct {
		name, header string
		want         Limits
	}{
		{"nothing", "Content-Type: text/plain", Limits{}},
		{"draft 8", `RateLimit-Policy: "default";q=100;w=60, "writes";q=20;w=60
RateLimit: "writes";r=17;t=42`, Limits{policies, []Level{{Name: "writes", Limit: 20, Remaining: 17, ResetAfter: 42 * time.Second, ResetKnown: true}}}},
		{"draft 8, several lines and levels, before X", `RateLimit-Policy: "default";q=100;w=60
RateLimit-Policy: "writes";q=20;w=60
RateLimit: "default";r=3
RateLimit: "writes";r=0;t=1
X-RateLimit-Remaining: 99`, Limits{policies, []Level{
			{Name: "default", Limit: 100, Remaining: 3},
			{Name: "writes", Limit: 20, ResetAfter: time.Second, ResetKnown: true},
		}}},
		{"draft 8, unit and partition", `RateLimit-Policy: "b";q=10;qu="content-bytes";w=1;pk=:QQ==:
RateLimit: "b";r=4;t=9;pk=:QQ==:, "b";r=5;pk=:Qg==:`, Limits{
			[]Policy{{Name: "b", Quota: 10, Unit: "content-bytes", Window: time.Second, Partition: "QQ=="}},
			[]Level{
				{Name: "b", Partition: "QQ==", Unit: "content-bytes", Limit: 10, Remaining: 4, ResetAfter: 9 * time.Second, ResetKnown: true},
				{Name: "b", Partition: "Qg==", Remaining: 5},
			},
		}},
		{"draft 8, default unit, escapes, vendor parameters", `RateLimit: "a\"\\b";r=1;acme-x=?1;t=2;y=@3;z=%"d"
RateLimit-Policy: "a\"\\b";q=7;qu="requests"`, Limits{
			[]Policy{{Name: `a"\b`, Quota: 7}},
			[]Level{{Name: `a"\b`, Limit: 7, Remaining: 1, ResetAfter: 2 * time.Second, ResetKnown: true}},
		}},
		{"draft 7", "RateLimit: limit=20, remaining=17, reset=42\nRateLimit-Policy: 100;w=60, 20;w=60",
			Limits{[]Policy{{Quota: 100, Window: time.Minute}, {Quota: 20, Window: time.Minute}}, unnamed(20, 17, 42*time.Second)}},
		{"draft 6", "RateLimit-Limit: 20\nRateLimit-Remaining: 17\nRateLimit-Reset: 42", Limits{nil, unnamed(20, 17, 42*time.Second)}},
		{"draft 6 with a window", "RateLimit-Limit: 120;window=60\nRateLimit-Remaining: 17\nRateLimit-Reset: 42",
			Limits{[]Policy{{Quota: 120, Window: time.Minute}}, unnamed(120, 17, 42*time.Second)}},
		{"quota list", `X-RateLimit-Limit: 10, 10;w=1;name="per-ip", 1000;w=3600` + "\nX-RateLimit-Remaining: 3\nX-RateLimit-Reset: 1",
			Limits{[]Policy{{Quota: 10, Window: time.Second}, {Quota: 1000, Window: time.Hour}}, unnamed(10, 3, time.Second)}},
		{"X, Unix seconds", "X-RateLimit-Limit: 20\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1706000060", Limits{nil, unnamed(20, 0, 42*time.Second)}},
		{"X, Unix seconds by the server's clock", "Date: Tue, 23 Jan 2024 09:53:38 GMT\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1706003660",
			Limits{nil, unnamed(0, 0, 42*time.Second)}},
		{"X, Unix milliseconds", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1706000060000", Limits{nil, unnamed(0, 0, 42*time.Second)}},
		{"X, delta", "X-RateLimit-Remaining: 4.9\nX-RateLimit-Reset: 41.2", Limits{nil, unnamed(0, 4, 42*time.Second)}},
		{"X, past", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1706000000", Limits{nil, unnamed(0, 0, 0)}},
		{"X, a date", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 2024-01-23T08:54:20Z", Limits{nil, unnamed(0, 0, 42*time.Second)}},
		{"X, reset after", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 7\nX-RateLimit-Reset-After: 0.25", Limits{nil, unnamed(0, 0, time.Second)}},
		{"X, between a delta and an instant", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 500000000", Limits{nil, []Level{{}}}},
		{"X, huge", "X-RateLimit-Remaining: 99999999999999999999\nX-RateLimit-Reset: 99999999999999999999.5", Limits{nil, []Level{{Remaining: 1<<63 - 1}}}},
		{"out of a cache", "Age: 3\nRateLimit: \"a\";r=0;t=9", Limits{}},
		{"malformed as a whole", `RateLimit: "a";r=0;t=9, "b`, Limits{}},
		{"no remaining", `RateLimit: "a";t=9`, Limits{}},
		{"negative", "RateLimit: \"a\";r=-1;t=9\nRateLimit-Remaining: -1", Limits{}},
		{"a year and more", `RateLimit: "a";r=0;t=999999999999999`, Limits{nil, []Level{{Name: "a", ResetAfter: maxTold, ResetKnown: true}}}},
		{"too long a number", `RateLimit: "a";r=0;t=1000000000000000`, Limits{}},
		{"too long a field", "RateLimit: \"" + strings.Repeat("a", maxFieldLength) + "\";r=1", Limits{}},
		{"malformed, so the older generation", "RateLimit: ;\nX-RateLimit-Remaining: 5", Limits{nil, []Level{{Remaining: 5}}}},
	}
	for _, c := range cases {
		if diff := cmp.Diff(c.want, Read(header(c.header), testNow)); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.name, diff)
		}
	}
}

func TestReadBoundsMembers(t *testing.T) {
	h := http.Header{"Ratelimit": {strings.Repeat(`"a";r=1, `, 500) + `"a";r=1`}}
	if n := len(Read(h, testNow).Levels); n != maxMembers {
		t.Errorf("%d levels, want %d", n, maxMembers)
	}
}

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		header string
		want   time.Duration
		told   bool
	}{
		{"", 0, false},
		{"Retry-After: 42", 42 * time.Second, true},
		{"Retry-After: 0", 0, true},
		{"Retry-After: 1.5", 2 * time.Second, true},
		{"Retry-After: 99999999999999999999", maxTold, true},
		{"Retry-After: -1", 0, false},
		{"Retry-After: soon", 0, false},
		{"Retry-After: Tue, 23 Jan 2024 08:54:20 GMT", 42 * time.Second, true},
		{"Retry-After: Tue, 23 Jan 2024 08:53:00 GMT", 0, true},
		{"Retry-After: Tue, 23 Jan 2024 09:54:20 GMT\nDate: Tue, 23 Jan 2024 09:53:38 GMT", 42 * time.Second, true},
		{"Retry-After: Tue, 23 Jan 2024 08:54:20 GMT\nDate: junk", 42 * time.Second, true},
		{"Retry-After: Tuesday, 23-Jan-24 08:54:20 GMT", 42 * time.Second, true},
	} {
		if got, told := RetryAfter(header(c.header), testNow); got != c.want || told != c.told {
			t.Errorf("%q: %v, %v; want %v, %v", c.header, got, told, c.want, c.told)
		}
	}
}

// TestReadTranscripts reads what the server is known to send: the transcripts of
// its own tests, in every generation.
func TestReadTranscripts(t *testing.T) {
	names, err := filepath.Glob("../internal/httpanswer/testdata/*.txt")
	if err != nil || len(names) < 10 {
		t.Fatalf("%d transcripts: %v", len(names), err)
	}
	want := map[string]Level{
		"allowed": {Name: "writes", Limit: 20, Remaining: 17, ResetAfter: 42 * time.Second, ResetKnown: true},
		"denied":  {Name: "writes", Limit: 20, ResetAfter: 42 * time.Second, ResetKnown: true},
		"never":   {Name: "writes", Limit: 20, Remaining: 20},
	}
	for _, path := range names {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		kind, _, _ := strings.Cut(name, "-")
		expected, counted := want[kind]
		switch {
		case name == "denied-jitter":
			expected.ResetAfter = 52 * time.Second
		case strings.Contains(name, "-draft-"), strings.HasSuffix(name, "-off"):
			expected.Name = ""
		}
		h := header(string(data))
		got := Read(h, testNow)
		if !counted {
			if len(got.Levels) > 0 {
				t.Errorf("%s: %+v, want none", name, got.Levels)
			}
			continue
		}
		if len(got.Levels) != 1 || got.Levels[0] != expected {
			t.Errorf("%s: %+v, want %+v", name, got.Levels, expected)
		}
		wait, told := RetryAfter(h, testNow)
		if told != (kind == "denied") || told && wait != expected.ResetAfter {
			t.Errorf("%s: Retry-After %v, %v; want that of %v", name, wait, told, expected.ResetAfter)
		}
	}
}

// FuzzMembers holds the scanner against a full parser of RFC 9651.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{
		`"a";r=1;t=2, "b";r=3;pk=:QQ==:`, `100;w=60, 20;w=1`, `limit=1, remaining=2`, `"a\"b";x`, `a;b=?0;c=1.5;d=@7`, `"a",`, ` "a" `, `"a" ,	"b"`, `1.`, `-0`, `*a/b`,
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, text string, dictionary bool) {
		got, ok := members(nil, []string{text}, dictionary)
		if len(got) > maxMembers || !ok && len(got) > 0 {
			t.Fatalf("%d members, %v", len(got), ok)
		}
		if dictionary || len(text) > maxFieldLength || strings.ContainsAny(text, "(:%@") {
			return // not compared: inner lists, base64, and kinds that the other one may not know
		}
		list, err := httpsfv.UnmarshalList([]string{text})
		if (err == nil && len(list) > 0) != ok {
			t.Fatalf("%q: %v, the other parser: %v", text, ok, err)
		}
		for i := range got {
			compare(t, text, got[i], list[i].(httpsfv.Item))
		}
	})
}

func compare(t *testing.T, text string, got member, want httpsfv.Item) {
	t.Helper()
	same := func(v value, other any) bool {
		switch other := other.(type) {
		case int64:
			return v.kind == integerValue && v.integer == other
		case string:
			return v.kind == stringValue && v.text == other
		case httpsfv.Token:
			return v.kind == tokenValue && v.text == string(other)
		}
		return v.kind == decimalValue || v.kind == otherValue
	}
	if !same(got.value, want.Value) {
		t.Fatalf("%q: %+v, want %v", text, got.value, want.Value)
	}
	for _, name := range []string{"q", "qu", "r", "t", "pk"} {
		other, given := want.Params.Get(name)
		v := got.params[paramNames[name]]
		if given != (v.kind != absent) || given && !same(v, other) {
			t.Fatalf("%q: %s = %+v, want %v", text, name, v, other)
		}
	}
}

// FuzzRead: whatever a server sends, what is read keeps its promises.
func FuzzRead(f *testing.F) {
	f.Add(`"a";r=1;t=2`, `"a";q=1;w=2`, "10, 10;w=1", "3", "1706000060", "Tue, 23 Jan 2024 08:54:20 GMT", "0")
	f.Add(`limit=1, remaining=2, reset=3`, `1;w=2`, "10", "3.5", "2024-01-23T08:54:20Z", "12", "")
	f.Fuzz(func(t *testing.T, rateLimit, policy, limit, remaining, reset, retry, age string) {
		h := http.Header{
			rateLimitField: {rateLimit}, policyField: {policy}, limitField: {limit, limit}, remainingField: {remaining}, resetField: {reset},
			xLimitField: {limit}, xRemainingField: {remaining}, xResetField: {reset}, retryAfterField: {retry}, dateField: {reset}, ageField: {age},
		}
		l := Read(h, testNow)
		if len(l.Policies) > 2*maxMembers || len(l.Levels) > maxMembers {
			t.Fatalf("%d policies, %d levels", len(l.Policies), len(l.Levels))
		}
		for _, p := range l.Policies {
			if p.Quota < 0 || p.Window < 0 || p.Window > maxTold {
				t.Fatalf("policy %+v", p)
			}
		}
		for _, one := range l.Levels {
			if one.Remaining < 0 || one.Limit < 0 || one.ResetAfter < 0 || one.ResetAfter > maxTold {
				t.Fatalf("level %+v", one)
			}
		}
		if wait, told := RetryAfter(h, testNow); wait < 0 || wait > maxTold || !told && wait != 0 {
			t.Fatalf("Retry-After %v, %v", wait, told)
		}
	})
}
