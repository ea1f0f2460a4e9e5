package rulefile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
	"github.com/headgate/headgate/rules/diff"
	"github.com/headgate/headgate/rules/lint"
)

func text(s string) *string { return &s }

// row returns an active row of 10 in a minute.
func row(id int64, scope string, method, route *string) rules.Row {
	return rules.Row{ID: id, Scope: scope, Method: method, Route: route, LimitCount: 10, WindowMS: 60_000, Active: true}
}

// loadRows loads rows beside a file, "" for none, without an error.
func loadRows(t testing.TB, file string, rows ...rules.Row) *rules.Set {
	t.Helper()
	var files []File
	if file != "" {
		files = []File{{Name: "f.yaml", Data: []byte(file)}}
	}
	set, err := Load(files, Options{Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func badText(set *rules.Set) string {
	var lines []string
	for _, bad := range set.BadRows() {
		lines = append(lines, bad.Error())
	}
	return strings.Join(lines, "\n")
}

func TestRows(t *testing.T) {
	inactive := row(9, "nobody", nil, nil)
	inactive.Active = false
	second := row(8, "apikey", nil, nil)
	second.WindowMS, second.LimitCount, second.Algorithm, second.Burst = 1000, 2, "token_bucket", 5
	costly := row(7, "ip", text("post"), text("/v1/upload"))
	costly.WeightField, costly.FailureMode = "content_length", "closed"
	set := loadRows(t, "",
		row(1, "apikey", nil, nil),
		row(2, "apikey", text("GET"), text("/v1/orders/{id}")),
		row(3, "apikey", text("GET"), nil),
		row(4, "apikey", nil, text("/v1/orders/{id}")),
		row(5, "user", nil, text("/v1/*")),
		row(6, "ip", text("DELETE"), text("unmatched")),
		costly, second, inactive,
	)
	if bad := badText(set); bad != "" {
		t.Fatal(bad)
	}
	for request, want := range map[string]string{
		"api_key:k":                                         "api.api_key",
		"api_key:k,endpoint:GET /v1/orders/{id}":            "api.api_key api.api_key.endpoint_GET /v1/orders/{id}",
		"api_key:k,endpoint:POST /v1/orders/{id}":           "api.api_key api.api_key.endpoint_* /v1/orders/{id}",
		"api_key:k,endpoint:GET /other":                     "api.api_key api.api_key.endpoint_prefix:GET ",
		"api_key:k,endpoint:PUT /other":                     "api.api_key",
		"user:u":                                            "none",
		"user:u,endpoint:PUT /v1/x/y":                       "api.user.endpoint_* /v1/*",
		"remote_address:10.0.0.1":                           "none",
		"remote_address:10.0.0.1,endpoint:DELETE unmatched": "api.remote_address.endpoint_DELETE unmatched",
		"remote_address:10.0.0.1,endpoint:POST /v1/upload":  "api.remote_address.endpoint_POST /v1/upload",
	} {
		if got := matchText(t, set, "api", request); got != want {
			t.Errorf("%s: got %s, want %s", request, got, want)
		}
	}
	byID := map[string]*rules.Rule{}
	for _, r := range set.Rules() {
		byID[r.ID] = r
	}
	if r := byID["api.api_key"]; r.File != rules.RowsFile || r.Line != 1 || !strings.HasPrefix(describe.Summary(r), "10 per 1m sliding_window; 2 per 1s token_bucket burst 5; ") {
		t.Errorf("got %s:%d: %s", r.File, r.Line, describe.Summary(r))
	}
	if r := byID["api.remote_address.endpoint_POST /v1/upload"]; r.Cost.String() != "content_length" || r.Failure != rules.Closed {
		t.Errorf("got %s", describe.Summary(r))
	}
	// All routes of a row count together, and so do all methods.
	for _, pair := range [][2]string{
		{"api_key:k,endpoint:GET /a", "api_key:k,endpoint:GET /b"},
		{"api_key:k,endpoint:PUT /v1/orders/{id}", "api_key:k,endpoint:POST /v1/orders/{id}"},
	} {
		if a, b := keyOf(t, set, pair[0]), keyOf(t, set, pair[1]); a != b {
			t.Errorf("%v have buckets of their own", pair)
		}
	}
	if keyOf(t, set, "api_key:k,endpoint:GET /a") == keyOf(t, set, "api_key:other,endpoint:GET /a") {
		t.Error("two API keys share a bucket")
	}
}

// keyOf returns the key of the innermost rule that a descriptor of domain api matches.
func keyOf(t *testing.T, set *rules.Set, text string) string {
	t.Helper()
	entries, err := descriptor.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	matched := set.Domain("api").AppendMatches(nil, entries, time.Now)
	if len(matched) == 0 {
		t.Fatalf("%s matches nothing", text)
	}
	return string(matched[len(matched)-1].AppendKey(nil, entries, 0))
}

func TestBadRows(t *testing.T) {
	change := func(do func(*rules.Row)) rules.Row {
		w := row(1, "user", text("GET"), text("/a"))
		do(&w)
		return w
	}
	for _, c := range []struct {
		row  rules.Row
		want string
	}{
		{change(func(w *rules.Row) { w.Scope = "tenant" }), "scope: 'tenant' is unknown; hint: one of user, ip, apikey"},
		{change(func(w *rules.Row) { w.Scope = "" }), "scope: '' is unknown"},
		{change(func(w *rules.Row) { w.Method = text("") }), "method: '' is no method; hint: write one such as GET, or NULL for all"},
		{change(func(w *rules.Row) { w.Method = text("GET /x") }), "method: 'GET /x' is no method"},
		{change(func(w *rules.Row) { w.Route = text("") }), "route: '' is no route"},
		{change(func(w *rules.Row) { w.Route = text("/a\n") }), "route: "},
		{change(func(w *rules.Row) { w.Route = text("/" + strings.Repeat("x", rules.MaxRoute)) }), "route: "},
		{change(func(w *rules.Row) { w.LimitCount = -1 }), "limit_count: requests_per_unit -1 is negative; hint: 0 denies every hit"},
		{change(func(w *rules.Row) { w.LimitCount = 1 << 60 }), "limit_count: requests_per_unit 1152921504606846976 is above"},
		{change(func(w *rules.Row) { w.WindowMS = 0 }), "window_ms: 0 is not from 1 to 31622400000; hint: write milliseconds, such as 60000"},
		{change(func(w *rules.Row) { w.WindowMS = -60_000 }), "window_ms: -60000 is not from 1"},
		{change(func(w *rules.Row) { w.WindowMS = 1 << 62 }), "window_ms: "},
		{change(func(w *rules.Row) { w.Algorithm = "fastest" }), "algorithm: algorithm 'fastest' is unknown; hint: one of sliding_window"},
		{change(func(w *rules.Row) { w.Algorithm = "concurrency" }), "algorithm: concurrency is not an algorithm of rate_limit"},
		{change(func(w *rules.Row) { w.Burst = 5 }), "burst: burst is not for sliding_window"},
		{change(func(w *rules.Row) { w.Burst = -1 }), "burst: -1 is negative"},
		{change(func(w *rules.Row) { w.FailureMode = "ajar" }), "failure_mode: failure_mode 'ajar' is unknown"},
		{change(func(w *rules.Row) { w.WeightField = "header:" }), "weight_field: cost from header needs a name"},
		{change(func(w *rules.Row) { w.WeightField = "endpoint" }), "weight_field: entry 'endpoint' says who asks for what"},
		{change(func(w *rules.Row) { w.WeightField = "entry:user" }), "weight_field: entry 'user' says who asks for what"},
		{change(func(w *rules.Row) { w.WeightField = "a\x00b" }), "weight_field: "},
		{change(func(w *rules.Row) { w.WeightField = strings.Repeat("x", rules.MaxWeightField+1) }), "weight_field: "},
	} {
		good := row(2, "apikey", nil, nil)
		set := loadRows(t, "", c.row, good)
		if got := badText(set); !strings.HasPrefix(got, "rate_limit_rules id=1: "+c.want) || len(set.BadRows()) != 1 || set.NumRules() != 1 {
			t.Errorf("got %q and %d rules, want %q", got, set.NumRules(), c.want)
		}
		if err := CheckRow(c.row, Options{}); err == nil || err.Error() != badText(set) {
			t.Errorf("alone: %v", err)
		}
		if err := CheckRow(good, Options{}); err != nil {
			t.Error(err)
		}
	}
}

func TestRowsBesideEachOther(t *testing.T) {
	same, cost, failure, entry := row(4, "user", nil, nil), row(5, "user", nil, nil), row(6, "user", nil, nil), row(7, "ip", nil, nil)
	cost.WindowMS, cost.WeightField = 1000, "tokens"
	failure.WindowMS, failure.FailureMode = 1000, "closed"
	entry.WeightField = "tokens"
	set := loadRows(t, "", failure, same, row(3, "user", nil, nil), entry, cost)
	const want = `rate_limit_rules id=4: window_ms: row 3 has the same scope, route, method and window; hint: delete one of them, or make it inactive
rate_limit_rules id=5: weight_field: it is '' in row 3 of the same scope, route and method; hint: write the same in both
rate_limit_rules id=6: failure_mode: it is '' in row 3 of the same scope, route and method; hint: write the same in both`
	if got := badText(set); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := matchText(t, set, "api", "remote_address:x,tokens:5"); got != "api.remote_address" {
		t.Errorf("got %s", got)
	}
}

// Where a route for all methods and a method for all routes both fit, the route counts,
// whichever row came first.
func TestRouteSaysMoreThanMethod(t *testing.T) {
	for _, ids := range [][2]int64{{1, 2}, {2, 1}} {
		set := loadRows(t, "", row(ids[0], "user", text("GET"), nil), row(ids[1], "user", nil, text("/v1/orders")))
		for request, want := range map[string]string{
			"user:u,endpoint:GET /v1/orders":  "api.user.endpoint_* /v1/orders",
			"user:u,endpoint:POST /v1/orders": "api.user.endpoint_* /v1/orders",
			"user:u,endpoint:GET /v1/other":   "api.user.endpoint_prefix:GET ",
		} {
			if got := matchText(t, set, "api", request); got != want {
				t.Errorf("rows %v: %s: got %s, want %s", ids, request, got, want)
			}
		}
	}
}

// A window that a later row has taken is taken as well.
func TestThirdRowWithTheWindowOfTheSecond(t *testing.T) {
	second, third := row(2, "user", nil, nil), row(3, "user", nil, nil)
	second.WindowMS, third.WindowMS = 1000, 1000
	set := loadRows(t, "", row(1, "user", nil, nil), second, third)
	const want = `rate_limit_rules id=3: window_ms: row 2 has the same scope, route, method and window; hint: delete one of them, or make it inactive`
	if got := badText(set); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if r := set.Rules(); len(r) != 1 || len(r[0].Limits) != 2 {
		t.Errorf("%d rules: %+v", len(r), r)
	}
}

func TestRowsBesideFiles(t *testing.T) {
	const file = `
domain: api
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 5}
  descriptors:
  - {key: endpoint, value: GET /a, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: endpoint, value: GET /health}
- key: remote_address
  descriptors:
  - {key: method, rate_limit: {unit: minute, requests_per_unit: 5}}
- key: api_key
`
	weighed := row(7, "user", text("GET"), text("/c"))
	weighed.WeightField = "method"
	set := loadRows(t, file,
		row(1, "user", nil, nil), row(2, "user", text("GET"), text("/a")), row(3, "user", text("GET"), text("/health")),
		row(4, "user", text("GET"), text("/b")), row(5, "ip", nil, nil), row(6, "apikey", nil, nil), weighed)
	const want = `rate_limit_rules id=1: user stands at f.yaml:4 already; hint: delete one of them
rate_limit_rules id=2: user.endpoint_GET /a stands at f.yaml:7 already; hint: delete one of them
rate_limit_rules id=3: user.endpoint_GET /health stands at f.yaml:8 already; hint: delete one of them
rate_limit_rules id=6: api_key stands at f.yaml:12 already; hint: delete one of them
rate_limit_rules id=7: weight_field: entry 'method' is matched by a rule of the domain; hint: give that entry another key`
	if got := badText(set); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// The file has keys of envoyproxy/ratelimit alone, so the last entry's limit counts;
	// rows do not change that.
	if set.Domain("api").Match != rules.Leaf {
		t.Error("rows changed how the file matches")
	}
	for request, want := range map[string]string{
		"user:u": "api.user", "user:u,endpoint:GET /b": "api.user.endpoint_GET /b", "user:u,endpoint:GET /health": "none",
		"remote_address:x": "api.remote_address", "remote_address:x,method:GET": "api.remote_address.method",
	} {
		if got := matchText(t, set, "api", request); got != want {
			t.Errorf("%s: got %s, want %s", request, got, want)
		}
	}
	if without := loadRows(t, file); without.Version() == set.Version() {
		t.Error("rows do not change the version")
	}
}

// Where a file takes its cost from an entry that rows would match, the rows stand aside.
func TestRowsBesideACost(t *testing.T) {
	set := loadRows(t, `
domain: api
descriptors:
- {key: service, cost: {from: entry, name: endpoint}, rate_limit: {unit: minute, requests_per_unit: 5}}
`, row(1, "user", nil, nil))
	const want = "rate_limit_rules id=1: scope: the rule at f.yaml:4 takes its cost from this entry, so that 'endpoint' takes no part in matching; hint: give that entry another key"
	if got := badText(set); got != want {
		t.Errorf("got %s", got)
	}
}

func TestRowsInADomainOfTheirOwn(t *testing.T) {
	set, err := Load([]File{{Name: "f.yaml", Data: []byte("domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5}}]")}},
		Options{Rows: []rules.Row{row(1, "user", nil, nil)}, RowsDomain: "rows"})
	if err != nil || len(set.BadRows()) != 0 || !slices.Equal(set.Domains(), []string{"api", "rows"}) || set.Domain("rows").Match != rules.Path {
		t.Errorf("got %v, %v", set.Domains(), err)
	}
}

// A file that is wrong is refused whatever the rows are.
func TestRowsDoNotSaveABadFile(t *testing.T) {
	if _, err := Load([]File{{Name: "f.yaml", Data: []byte("descriptors: []")}}, Options{Rows: []rules.Row{row(1, "user", nil, nil)}}); err == nil {
		t.Error("loaded")
	}
}

// TestAnyRows holds that rows never refuse a set, and that each active one is a limit
// of a rule or named as bad.
func TestAnyRows(t *testing.T) {
	texts := rapid.SampledFrom([]*string{nil, nil, text("GET"), text("/a"), text("/*"), text("*"), text(""), text("post"), text("/a b")})
	rapid.Check(t, func(t *rapid.T) {
		var rows []rules.Row
		active := 0
		for i := range rapid.IntRange(0, 12).Draw(t, "rows") {
			w := rules.Row{
				ID: int64(i + 1), Scope: rapid.SampledFrom([]string{"user", "ip", "apikey", "x"}).Draw(t, "scope"),
				Route: texts.Draw(t, "route"), Method: texts.Draw(t, "method"),
				LimitCount: rapid.Int64Range(-1, 100).Draw(t, "limit"), WindowMS: rapid.SampledFrom([]int64{0, 1, 1000, 60_000}).Draw(t, "window"),
				WeightField: rapid.SampledFrom([]string{"", "", "tokens", "header:x", "claim:", "user", "endpoint"}).Draw(t, "weight"),
				Algorithm:   rapid.SampledFrom([]string{"", "gcra", "none"}).Draw(t, "algorithm"),
				Burst:       rapid.SampledFrom([]int64{0, 0, 5}).Draw(t, "burst"),
				FailureMode: rapid.SampledFrom([]string{"", "closed", "x"}).Draw(t, "failure"),
				Active:      rapid.IntRange(0, 4).Draw(t, "active") > 0,
			}
			if w.Active {
				active++
			}
			rows = append(rows, w)
		}
		file := rapid.SampledFrom([]string{
			"", "domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5}}]",
			"domain: api\ndescriptors: [{key: tokens, rate_limit: {unit: minute, requests_per_unit: 5}}]",
			"domain: api\ndescriptors: [{key: k, cost: {from: entry, name: endpoint}, rate_limit: {unit: minute, requests_per_unit: 5}}]",
		}).Draw(t, "file")
		var files []File
		if file != "" {
			files = []File{{Name: "f.yaml", Data: []byte(file)}}
		}
		set, err := Load(files, Options{Rows: rows, Compat: rapid.Bool().Draw(t, "compat")})
		if err != nil {
			t.Fatal(err)
		}
		limits := 0
		for _, r := range set.Rules() {
			if r.File == rules.RowsFile {
				limits += len(r.Limits)
			}
		}
		if limits+len(set.BadRows()) != active {
			t.Fatalf("%d limits and %d bad of %d active rows: %s", limits, len(set.BadRows()), active, badText(set))
		}
		lint.Check(set)
		diff.Sets(set, set)
	})
}

// The times of a row mean nothing to its rule: nodes that have read them at another time
// name the same rules alike.
func TestTimesOfRowsAreNotInTheVersion(t *testing.T) {
	before := row(1, "user", nil, nil)
	after := before
	after.CreatedAt, after.UpdatedAt = time.Unix(1, 0), time.Unix(1<<40, 0)
	want := loadRows(t, "", before).Version()
	if got := loadRows(t, "", after).Version(); got != want {
		t.Errorf("%s with other times, not %s", got, want)
	}
	after.LimitCount++
	if got := loadRows(t, "", after).Version(); got == want {
		t.Errorf("%s with another limit too", got)
	}
	if want != "eafc0e6d312e6cdf" {
		t.Errorf("%s: the version of rows has changed, so that nodes of another release differ", want)
	}
}
