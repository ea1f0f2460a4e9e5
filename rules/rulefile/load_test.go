package rulefile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
	"github.com/headgate/headgate/rules/diff"
	"github.com/headgate/headgate/rules/lint"
)

func TestDefaults(t *testing.T) {
	const envoyFile = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: month, requests_per_unit: 5}}]"
	const ownFile = "domain: d\ndescriptors: [{key: k, sensitive: true, rate_limit: {unit: year, requests_per_unit: 5}}]"
	for _, test := range []struct {
		name, file string
		options    Options
		want       string
	}{
		{"plain, keys of Envoy", envoyFile, Options{}, "5 per 30d sliding_window; match leaf; all_or_nothing; fails open"},
		{"plain, keys of Headgate", ownFile, Options{}, "5 per 365d sliding_window; match leaf; all_or_nothing; fails closed; sensitive"},
		{"compat, keys of Envoy", envoyFile, Options{Compat: true}, "5 per 30d fixed_window, denied hits charged; match leaf; independent; fails open"},
		{"compat, keys of Headgate", ownFile, Options{Compat: true}, "5 per 365d fixed_window, denied hits charged; match leaf; independent; fails closed; sensitive"},
		{
			"compat, told otherwise",
			"domain: d\nmatch: path\nconsumption: all_or_nothing\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 5, count_denied: false}}]",
			Options{Compat: true},
			"5 per 1d fixed_window; match path; all_or_nothing; fails open",
		},
		{
			"compat, a bucket", "domain: d\ndescriptors: [{key: k, rate_limit: {window: 1500ms, requests_per_unit: 5, algorithm: token_bucket, burst: 7}}]",
			Options{Compat: true},
			"5 per 1.5s token_bucket burst 7; match leaf; independent; fails open",
		},
		{
			"plain, calendar", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: Week, requests_per_unit: 5, time_zone: UTC, count_denied: true}}]",
			Options{},
			"5 per calendar week in UTC fixed_window, denied hits charged; match leaf; all_or_nothing; fails open",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := mustLoad(t, test.file, test.options)
			if got := describe.Summary(set.Rules()[0]); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestUnitsAreAsLongAsEnvoys(t *testing.T) {
	for name, want := range map[string]time.Duration{
		"second": time.Second, "MINUTE": time.Minute, "Hour": time.Hour, "day": 24 * time.Hour,
		"week": 604800 * time.Second, "month": 2592000 * time.Second, "year": 31536000 * time.Second,
	} {
		set := mustLoad(t, "domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 1, unit: "+name+"}}]", Options{})
		if got := set.Rules()[0].Limits[0].Period; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func TestRuleRecordsWhatTheFileSays(t *testing.T) {
	set := mustLoad(t, `
domain: d
descriptors:
  - key: k
    value: "v*"
    shadow_mode: true
    quota_mode: true
    detailed_metric: true
    value_to_metric: true
    share_threshold: true
    metadata: {owner: me, 1: x, deep: {true: .inf, list: [1, 2.5, yes, null, text, 1_000, 2026-01-01]}}
    cost: {from: header, name: X-Cost, max: 7}
    rate_limit: {unit: minute, requests_per_unit: 1, name: n, replaces: [{name: a}, {name: b}, {name: a}]}
`, Options{})
	r := set.Rules()[0]
	if !r.Shadow || !r.Quota || !r.DetailedMetric || len(r.ValueLevels()) != 1 || !r.ShareThreshold || r.Always || r.Unlimited || r.Sensitive {
		t.Errorf("flags: %+v", r)
	}
	if r.ID != "n" || r.Domain != "d" || r.File != "rules.yaml" || r.Line != 4 || r.Limits[0].Name != "n" {
		t.Errorf("names: %+v", r)
	}
	if want := (rules.Cost{Source: rules.CostAttribute, Name: "header:x-cost", Max: 7}); r.Cost != want {
		t.Errorf("cost: %+v", r.Cost)
	}
	if !slices.Equal(r.Replaces, []string{"a", "b"}) {
		t.Errorf("replaces: %v", r.Replaces)
	}
	want := "map[1:x deep:map[list:[1 2.5 true <nil> text 1000 2026-01-01] true:.inf] owner:me]"
	if got := fmt.Sprint(r.Metadata); got != want {
		t.Errorf("metadata: %s, want %s", got, want)
	}
	if r.Limits[0].Algorithm != limit.SlidingWindow {
		t.Errorf("algorithm: %v", r.Limits[0].Algorithm)
	}
}

func TestSeveralFiles(t *testing.T) {
	b := File{"b.yaml", []byte("domain: d\ndescriptors: [{key: k, value: b*, rate_limit: {unit: minute, requests_per_unit: 1}}]")}
	a := File{"a.yaml", []byte("domain: d\ndescriptors: [{key: k, value: '*', rate_limit: {unit: minute, requests_per_unit: 1}}]")}
	other := File{"c.yaml", []byte("domain: other")}

	_, err := Load([]File{b, a}, Options{})
	if err == nil || err.Error() != "b.yaml:1:9: duplicate domain 'd' in config file; hint: the file a.yaml has it already; merge them, or let domains be merged: --merge-domains" {
		t.Errorf("duplicate domain: %v", err)
	}

	set, err := Load([]File{other, b, a}, Options{MergeDomains: true})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(set.Domains(), []string{"d", "other"}) || set.NumRules() != 2 {
		t.Errorf("domains %v, rules %d", set.Domains(), set.NumRules())
	}
	if got := matchText(t, set, "d", "k:bb"); got != "d.k_*" {
		t.Errorf("the first file in the order of names does not win: %s", got)
	}
	again, err := Load([]File{a, b, other}, Options{MergeDomains: true})
	if err != nil || again.Version() != set.Version() {
		t.Errorf("the version depends on the order: %s and %s, %v", again.Version(), set.Version(), err)
	}

	_, err = Load([]File{a, {"z.yaml", a.Data}}, Options{MergeDomains: true})
	if err == nil || !strings.Contains(err.Error(), "duplicate descriptor composite key 'd.k_*'") {
		t.Errorf("duplicate key in merged files: %v", err)
	}
}

func TestMergedFilesAgree(t *testing.T) {
	own := File{"a.yaml", []byte("domain: d\nmatch: path\nconsumption: independent")}
	envoy := File{"b.yaml", []byte("domain: d\ndescriptors: [{key: k}]")}
	set, err := Load([]File{own, envoy}, Options{MergeDomains: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := set.Domain("d"); d.Match != rules.Path || d.Consumption != rules.Independent {
		t.Errorf("%v %v", d.Match, d.Consumption)
	}
	_, err = Load([]File{own, {"c.yaml", []byte("domain: d\nmatch: leaf\nconsumption: all_or_nothing")}}, Options{MergeDomains: true})
	if err == nil || !strings.Contains(err.Error(), "match is 'leaf', but 'path' in a.yaml") || !strings.Contains(err.Error(), "consumption is") {
		t.Errorf("%v", err)
	}
}

func TestErrorsOfAllFilesAreCollected(t *testing.T) {
	_, err := Load([]File{
		{"z.yaml", []byte("domain: z\nnope: 1\nnope2: 2")},
		{"a.yaml", nil},
		{"good.yaml", []byte("domain: good")},
	}, Options{})
	var errs rules.Errors
	if !errors.As(err, &errs) || len(errs) != 3 {
		t.Fatalf("%v", err)
	}
	for i, want := range []string{"a.yaml:1:1: config file cannot have empty domain", "z.yaml:2:1: config error, unknown key 'nope'", "z.yaml:3:1: config error, unknown key 'nope2'"} {
		if !strings.HasPrefix(errs[i].String(), want) {
			t.Errorf("error %d is %v, want %s", i, errs[i], want)
		}
	}
}

func TestIDsAreUnique(t *testing.T) {
	set := mustLoad(t, `
domain: a
descriptors:
  - {key: x.y, rate_limit: {unit: minute, requests_per_unit: 1}}
  - key: x
    descriptors:
      - {key: y, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: named, rate_limit: {unit: minute, requests_per_unit: 1, name: a.x.y}}
  - {key: one, rate_limit: {unit: minute, requests_per_unit: 1, name: same}}
  - {key: two, rate_limit: {unit: minute, requests_per_unit: 1, name: same}}
`, Options{})
	var ids []string
	for _, r := range set.Rules() {
		ids = append(ids, r.ID)
	}
	want := []string{"a.x.y#2", "a.x.y#3", "a.x.y", "a.one", "a.two"}
	if !slices.Equal(ids, want) {
		t.Errorf("ids %q, want %q", ids, want)
	}
}

func TestVersionNamesTheContent(t *testing.T) {
	files := []File{{"a", []byte("domain: d")}, {"b", []byte("domain: e")}}
	versions := make(map[string]bool)
	for _, variant := range []struct {
		files []File
		o     Options
	}{
		{files, Options{}}, {files, Options{Compat: true}}, {files, Options{MergeDomains: true}}, {files, Options{Failure: rules.Closed}}, {files[:1], Options{}},
		{[]File{{"a", []byte("domain: d ")}, {"b", []byte("domain: e")}}, Options{}},
	} {
		set, err := Load(variant.files, variant.o)
		if err != nil {
			t.Fatal(err)
		}
		versions[set.Version()] = true
	}
	if len(versions) != 6 {
		t.Errorf("%d versions for 6 contents", len(versions))
	}
}

// A failure mode for all is that of rules that do not say one, in files and in rows; what is
// sensitive fails closed all the same.
func TestFailureModeOfRulesThatSayNone(t *testing.T) {
	files := []File{{"f", []byte(`
domain: d
descriptors:
- {key: silent, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: sensitive, sensitive: true, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: open, failure_mode: open, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: bare, failure_mode: open_unbounded, sensitive: true, rate_limit: {unit: day, requests_per_unit: 1}}
`)}}
	row := rules.Row{ID: 7, Scope: "apikey", LimitCount: 1, WindowMS: 60_000, Active: true}
	for _, mode := range []rules.FailureMode{rules.Open, rules.Closed, rules.FailLocal, rules.OpenUnbounded} {
		set, err := Load(files, Options{Failure: mode, Rows: []rules.Row{row}})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]rules.FailureMode{}
		for _, r := range set.Rules() {
			got[r.ID] = r.Failure
		}
		for id, want := range map[string]rules.FailureMode{"d.silent": mode, "d.sensitive": rules.Closed, "d.open": rules.Open, "d.bare": rules.OpenUnbounded} {
			if got[id] != want {
				t.Errorf("%s of %s: %s, want %s", id, mode, got[id], want)
			}
			delete(got, id)
		}
		for id, failure := range got {
			if failure != mode {
				t.Errorf("%s, a row: %s, want %s", id, failure, mode)
			}
		}
		if len(got) != 1 {
			t.Errorf("%d rules of rows, want 1: bad are %v", len(got), set.BadRows())
		}
	}
}

func TestCompatBoundsQuotasAsEnvoyDoes(t *testing.T) {
	file := []File{{"f", []byte("domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 4294967296}}]")}}
	if _, err := Load(file, Options{}); err != nil {
		t.Errorf("plain: %v", err)
	}
	if _, err := Load(file, Options{Compat: true}); err == nil || !strings.Contains(err.Error(), "out of range") {
		t.Errorf("compat: %v", err)
	}
}

// refused loads a file that must be refused, with everything that a diagnostic
// has, and returns the message.
func refused(t *testing.T, data []byte) string {
	t.Helper()
	_, err := Load([]File{{"bad.yaml", data}}, Options{})
	var errs rules.Errors
	if !errors.As(err, &errs) || len(errs) == 0 {
		t.Fatalf("error %v", err)
	}
	for _, d := range errs {
		if d.File != "bad.yaml" || d.Message == "" || d.Hint == "" {
			t.Errorf("incomplete: %+v", d)
		}
	}
	return err.Error()
}

func TestBadFiles(t *testing.T) {
	nested := "domain: d\ndescriptors:" + strings.Repeat(" [{key: k, descriptors:", 40) + strings.Repeat("}]", 40)
	bomb := "domain: d\ndescriptors:\n- &a0 {key: k}\n"
	for i := range 9 {
		bomb += fmt.Sprintf("- &a%d {key: k%d, descriptors: [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]}\n", i+1, i, i, i, i, i, i, i, i, i, i)
	}
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"empty":                 {nil, "bad.yaml:1:1: config file cannot have empty domain"},
		"only a comment":        {[]byte("# nothing\n"), "config file cannot have empty domain"},
		"100 MB":                {make([]byte, 100<<20), "error loading config file: the file has 104857600 bytes, more than 8388608"},
		"NUL":                   {[]byte("domain: a\x00b"), "bad.yaml:1:1: error loading config file: yaml: control characters are not allowed"},
		"not UTF-8":             {[]byte("domain: d\nkéy: \xff"), "bad.yaml:2:6: error loading config file: not valid UTF-8"},
		"cut UTF-8":             {[]byte("domain: \xc3"), "bad.yaml:1:9: error loading config file: not valid UTF-8"},
		"deep flow":             {bytes.Repeat([]byte("["), 1<<20), "exceeded max depth"},
		"deep block":            {bytes.Repeat([]byte("- "), 1<<20), "exceeded max depth"},
		"deep tree":             {[]byte(nested), "nested deeper than 32 levels"},
		"alias bomb":            {[]byte(bomb), "excessive aliasing"},
		"metadata bomb":         {[]byte(metadataBomb()), "excessive aliasing"},
		"merge bomb":            {[]byte(mergeBomb()), "excessive aliasing"},
		"alias of itself":       {[]byte("domain: d\ndescriptors: [{key: k, metadata: &m {again: *m}}]"), "excessive aliasing"},
		"merge of itself":       {[]byte("domain: d\ndescriptors: [&m {key: k, <<: *m}]"), "excessive aliasing"},
		"scalar":                {[]byte("text"), "cannot unmarshal !!str `text` into the top of the file"},
		"no end of descriptors": {[]byte("domain: d\ndescriptors: [" + strings.Repeat("{},", 300_000) + "]"), "more than 200000 descriptors"},
		"bad merge":             {[]byte("domain: d\ndescriptors: [{<<: 5, key: k}]"), "map merge requires"},
		"bad base64":            {[]byte("domain: !!binary '*'"), "invalid base64"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refused(t, test.data); !strings.Contains(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func metadataBomb() string {
	bomb := "domain: d\ndescriptors:\n- key: k\n  metadata:\n    a0: &a0 x\n"
	for i := range 9 {
		bomb += fmt.Sprintf("    a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i, i, i, i, i, i, i)
	}
	return bomb
}

func mergeBomb() string {
	bomb := "domain: d\ndescriptors:\n- &a0 {key: k}\n"
	for i := range 9 {
		bomb += fmt.Sprintf("- &a%d {<<: [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d], value: v%d}\n", i+1, i, i, i, i, i, i, i, i, i, i)
	}
	return bomb
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10s": 10 * time.Second, "5m": 5 * time.Minute, "36h": 36 * time.Hour, "1d": 24 * time.Hour,
		"2w": 14 * 24 * time.Hour, "1w1d1h": 193 * time.Hour, "1d12h30m": 36*time.Hour + 30*time.Minute,
		"1.5h": 90 * time.Minute, "250ms": 250 * time.Millisecond, "366d": limit.MaxPeriod,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", text, got, err, want)
		}
		if again, err := ParseDuration(rules.DurationText(want)); err != nil || again != want {
			t.Errorf("DurationText(%v) = %q, which is %v, %v", want, rules.DurationText(want), again, err)
		}
	}
	for _, text := range []string{"", "0s", "-1s", "10", "d", "1d1w", "1d-1h", "367d", "53w", "1.5d", "9999999w", "65535d", "1h1d", "99999999h"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %v", text, got)
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"envoy/accepted", "envoy/refused", "headgate/accepted", "headgate/refused"} {
		names, err := filepath.Glob(filepath.Join("testdata", pattern, "*.yaml"))
		if err != nil || len(names) == 0 {
			f.Fatalf("no files in %s: %v", pattern, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, o := range modes {
			set, err := Load([]File{{"fuzz.yaml", data}}, o)
			var errs rules.Errors
			if err != nil && (!errors.As(err, &errs) || len(errs) == 0 || errs[0].Message == "") {
				t.Errorf("error without a diagnostic: %v", err)
			}
			if err == nil {
				checkSet(t, set)
			}
			if err != nil && strings.Contains(err.Error(), "may be damaged") {
				t.Errorf("a panic: %v", err)
			}
		}
	})
}

// checkSet checks what holds for every set.
func checkSet(t *testing.T, set *rules.Set) {
	ids := make(map[string]bool)
	for _, r := range set.Rules() {
		if ids[r.ID] {
			t.Errorf("two rules have the ID %q", r.ID)
		}
		ids[r.ID] = true
		if r.Unlimited == (len(r.Limits) > 0) && !r.Tenant {
			t.Errorf("rule %s: unlimited %t with %d limits", r.ID, r.Unlimited, len(r.Limits))
		}
		checkRoles(t, r)
		if describe.Summary(r) == "" || set.Domain(r.Domain) == nil {
			t.Errorf("rule %s: summary %q, domain %q", r.ID, describe.Summary(r), r.Domain)
		}
	}
	checkSchedules(t, set)
	if changes := diff.Sets(set, set); len(changes) > 0 {
		t.Errorf("a set differs from itself: %v", changes)
	}
	lint.Check(set)
}

// checkSchedules holds that schedules make limits of limits at any time.
func checkSchedules(t *testing.T, set *rules.Set) {
	now := time.Date(2028, 2, 29, 1, 30, 0, 0, time.UTC)
	for _, r := range set.Rules() {
		if shift, until := r.ShiftAt(now); !until.After(now) || shift != nil && shift.Factor < 1 {
			t.Errorf("rule %s: %v until %v", r.ID, shift, until)
		}
		for i := range r.Limits {
			if r.Limits[i].Role.IsMain() && r.Scaled(r.Limits[i].Limit, now, "pro") == nil {
				t.Errorf("rule %s: no limit of %v", r.ID, &r.Limits[i])
			}
		}
	}
}

// checkRoles checks the order of the limits of a rule, and that no two share a
// key.
func checkRoles(t *testing.T, r *rules.Rule) {
	rank := [...]int{rules.Main: 0, rules.Candidate: 1, rules.InFlight: 2, rules.Secondary: 3, rules.Sustained: 3, rules.Banning: 4}
	keys := make(map[string]bool)
	for i := range r.Limits {
		if i > 0 && rank[r.Limits[i].Role] < rank[r.Limits[i-1].Role] {
			t.Errorf("rule %s: %s", r.ID, describe.Summary(r))
		}
		keys[string(rules.Matched{Rule: r}.AppendKey(nil, nil, i))] = true
	}
	if len(keys) != len(r.Limits) || len(r.Limits) == 1 && r.Limits[0].Role == rules.Banning && !r.Tenant {
		t.Errorf("rule %s: %d keys of %d limits", r.ID, len(keys), len(r.Limits))
	}
	if soft := r.Soft; soft != nil && (soft.Percent < 1 || soft.Percent > 99 || soft.Delay > rules.MaxSoftDelay || r.LimitOf(rules.Main) == nil && !r.Tenant) {
		t.Errorf("rule %s: soft limit %+v", r.ID, soft)
	}
}

const limitText = "rate_limit: {unit: minute, requests_per_unit: 1}"

func mustLoad(t testing.TB, text string, o Options) *rules.Set {
	t.Helper()
	set, err := Load([]File{{Name: "rules.yaml", Data: []byte(text)}}, o)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestFilesWithoutANameAreTold: by their place, with line and column.
func TestFilesWithoutANameAreTold(t *testing.T) {
	good := "domain: a\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 1}}]"
	_, err := Load([]File{{Name: "b.yaml", Data: []byte("domain: b\n")}, {Data: []byte(good)}, {Data: []byte("domain: c\ndescriptors:\n- {key: k, rate_limit: {unit: minuet, requests_per_unit: 1}}")}}, Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "file 2:3:") {
		t.Errorf("%v", err)
	}
}
