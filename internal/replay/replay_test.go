package replay_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/replay"
	"github.com/headgate/headgate/internal/testrules"
)

// noon is the time of the first records.
const noon = int64(1795348800000)

// asked is a request as tests make and judge it.
type asked struct {
	ts       int64
	user, op string
	allowed  bool
}

// line is its event.
func (a asked) line(i int) string {
	outcome := map[bool]string{true: "allowed", false: "denied"}[a.allowed]
	return fmt.Sprintf(`{"schema":1,"ts":%d,"event_id":"019dfe03-6d7b-7a31-8c55-%012x","node":"n1","domain":"api","key":"user:%[3]s","key_hashed":false,`+
		`"descriptors":[{"entries":"user:%[3]s","hits":1},{"entries":"user:%[3]s,op:%[4]s","hits":1}],"rule":"old","limit":1,"used":1,"remaining":0,"hits":1,`+
		`"outcome":"%[5]s","allowed":%[6]t,"degraded":"","config_version":"v","took_us":1,"sample_rate":1}`, a.ts, i, a.user, a.op, outcome, a.allowed)
}

// traffic is some requests in the order of their times.
func traffic(n int) []asked {
	random := rand.New(rand.NewPCG(3, 4))
	list, ts := make([]asked, n), noon
	for i := range list {
		ts += 1 + random.Int64N(199)
		list[i] = asked{ts, fmt.Sprint("u", random.IntN(12)), []string{"read", "write"}[random.IntN(2)], random.IntN(10) > 0}
	}
	return list
}

func file(list []asked) string {
	var b strings.Builder
	for i, a := range list {
		b.WriteString(a.line(i) + "\n")
	}
	return b.String()
}

// run replays inputs against the rules of a file.
func run(t *testing.T, policy string, o replay.Options) *replay.Report {
	t.Helper()
	o.Candidate = testrules.Load(t, policy)
	if o.Top == 0 {
		o.Top = 50
	}
	report, err := replay.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

const naivePolicy = `
domain: api
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 20, algorithm: fixed_window}
  descriptors:
  - {key: op, value: write, rate_limit: {unit: minute, requests_per_unit: 9, algorithm: sliding_log}}
`

// naive is the same two limits written down anew: a window of the clock by user, and an exact log of
// writes; a request that one of both denies is charged nothing.
type naive struct {
	windows map[string]int
	logs    map[string][]int64
}

func (n *naive) allows(a asked) (allowed bool, rule string) {
	const minute = 60_000
	window := fmt.Sprint(a.user, " ", a.ts/minute)
	log := slices.DeleteFunc(n.logs[a.user], func(at int64) bool { return at <= a.ts-minute })
	n.logs[a.user] = log
	byUser, byLog := n.windows[window] >= 20, a.op == "write" && len(log) >= 9
	switch {
	case byUser && byLog:
		// The one with the longest wait speaks; equals are those of the first.
		if free := log[len(log)-9] + minute; free > (a.ts/minute+1)*minute {
			return false, "api.user.op_write"
		}
		return false, "api.user"
	case byUser:
		return false, "api.user"
	case byLog:
		return false, "api.user.op_write"
	}
	n.windows[window]++
	if a.op == "write" {
		n.logs[a.user] = append(log, a.ts)
	}
	return true, ""
}

// count is what the naive script says of a list.
func count(list []asked) (total replay.Counts, byRule map[string]int64, byKey map[string]int64, byHour map[int64]int64) {
	n := naive{make(map[string]int), make(map[string][]int64)}
	byRule, byKey, byHour = make(map[string]int64), make(map[string]int64), make(map[int64]int64)
	for _, a := range list {
		allowed, rule := n.allows(a)
		total.Requests++
		if !a.allowed {
			total.DeniedBefore++
		}
		if !allowed {
			total.DeniedAfter++
		}
		if a.allowed && !allowed {
			total.NewlyDenied++
			byRule[rule]++
			key := "user:" + a.user
			if rule == "api.user.op_write" {
				key += ",op:write"
			}
			byKey[key]++
			byHour[a.ts/3600_000]++
		}
		if !a.allowed && allowed {
			total.NewlyAllowed++
		}
	}
	return total, byRule, byKey, byHour
}

// TestCountsEqualANaiveScript: of 40,000 requests, by rule, key and hour.
//
//promise:safe-changes
func TestCountsEqualANaiveScript(t *testing.T) {
	list := traffic(40_000)
	total, byRule, byKey, byHour := count(list)
	if total.NewlyDenied < 1000 || total.NewlyAllowed < 1000 || len(byRule) != 2 || len(byHour) < 2 {
		t.Fatalf("too tame: %+v %v %v", total, byRule, byHour)
	}
	report := run(t, naivePolicy, replay.Options{Inputs: []replay.Input{textInput("a", file(list), events(nil))}})
	if diff := cmp.Diff(total, report.Counts); diff != "" {
		t.Error(diff)
	}
	for _, r := range report.Rules {
		if r.NewlyDenied != byRule[r.Rule] {
			t.Errorf("rule %q: %d, want %d", r.Rule, r.NewlyDenied, byRule[r.Rule])
		}
		if r.Rule == "old" && (r.NewlyAllowed != total.NewlyAllowed || r.DeniedBefore != total.DeniedBefore) {
			t.Errorf("%+v, want %+v", r, total)
		}
	}
	keys := make(map[string]int64)
	for _, k := range report.DeniedKeys.Keys {
		keys[k.Key] += k.Count
	}
	if diff := cmp.Diff(byKey, keys); diff != "" {
		t.Error(diff)
	}
	for _, h := range report.Hours {
		if want := byHour[h.From.Unix()/3600]; h.NewlyDenied != want {
			t.Errorf("%v: %d, want %d", h.From, h.NewlyDenied, want)
		}
	}
}

// The same records in many files, in any order of files, with gzip, out of order within the
// window and with some of them twice, are the same.
func TestFilesAreMergedByTime(t *testing.T) {
	list := traffic(6000)
	total, _, _, _ := count(list)
	random := rand.New(rand.NewPCG(5, 6))
	parts := make([][]string, 7)
	for i, a := range list {
		p := random.IntN(len(parts))
		parts[p] = append(parts[p], a.line(i))
		if i%50 == 0 {
			parts[0] = append(parts[0], a.line(i))
		}
	}
	const window = 5 * time.Second
	var inputs []replay.Input
	twice := int64(0)
	for i, lines := range parts {
		// Neighbours change places: at 200 ms at most from one to the next, they are within it.
		for j := 0; j+1 < len(lines) && i%2 == 0; j += 2 {
			lines[j], lines[j+1] = lines[j+1], lines[j]
		}
		input := textInput(fmt.Sprint("part", i), strings.Join(lines, "\r\n"), events(nil))
		if i == 3 {
			input.Open = func() (io.ReadCloser, error) {
				var b bytes.Buffer
				z := gzip.NewWriter(&b)
				io.WriteString(z, strings.Join(lines, "\n"))
				z.Close()
				return io.NopCloser(&b), nil
			}
		}
		if i == 4 {
			input.Again = false // as standard input is
		}
		inputs = append(inputs, input)
		twice += int64(len(lines))
	}
	slices.Reverse(inputs)
	report := run(t, naivePolicy, replay.Options{Inputs: inputs, Window: window})
	if report.Reading.Twice != twice-int64(len(list)) || report.Reading.Late != 0 || report.Reading.Bad != 0 {
		t.Errorf("%+v", report.Reading)
	}
	if diff := cmp.Diff(total, report.Counts); diff != "" {
		t.Error(diff)
	}
}

// A gzip that is cut off or damaged is an error that says what to do: how many lines are missing cannot be known.
func TestDamagedGzip(t *testing.T) {
	var whole bytes.Buffer
	z := gzip.NewWriter(&whole)
	for i, a := range traffic(6000) {
		io.WriteString(z, a.line(i)+"\n")
	}
	z.Close()
	const gzipHeader = 10
	spoilt := bytes.Clone(whole.Bytes())
	spoilt[len(spoilt)-8]++ // of the checksum
	for name, b := range map[string][]byte{
		"cut off in its head": whole.Bytes()[:5],
		"cut off in a line":   whole.Bytes()[:whole.Len()/2],
		"cut off at its end":  whole.Bytes()[:whole.Len()-1],
		"spoilt":              spoilt,
		"written over":        append(bytes.Clone(whole.Bytes()[:gzipHeader]), 0xff, 0xff, 0xff, 0xff), // there is no such block
		"something behind it": append(bytes.Clone(whole.Bytes()), "something"...),
	} {
		input := textInput("events.gz", string(b), events(nil))
		set := testrules.Load(t, naivePolicy)
		_, err := replay.Run(t.Context(), replay.Options{Candidate: set, Inputs: []replay.Input{input}, Window: time.Second})
		if err == nil || !strings.HasPrefix(err.Error(), "read events.gz: its gzip is cut off or damaged (") || !strings.Contains(err.Error(), "; hint: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is further out of order than the window is decided late, and said.
func TestLateRecords(t *testing.T) {
	lines := file([]asked{{noon, "a", "read", true}, {noon + 60_000, "a", "read", true}, {noon + 62_000, "a", "read", true}, {noon + 1000, "a", "read", true}})
	report := run(t, naivePolicy, replay.Options{Inputs: []replay.Input{textInput("a", lines, events(nil))}, Window: time.Second})
	if report.Reading.Late != 1 || report.Requests != 4 || report.Until.UnixMilli() != noon+62_000 {
		t.Errorf("%+v", report)
	}
}

// Bad lines are counted and told, and nothing of them counts; a huge one takes no memory.
func TestBadLines(t *testing.T) {
	lines := []string{
		asked{noon, "a", "read", true}.line(1), `{"schema":1`, `{"schema":2,"ts":1}`, "", strings.Repeat("x", 3*replay.MaxLine),
		`{"schema":1,"ts":5,"outcome":"allowed"}`, `[]`, `{"schema":1,"ts":"x"}`,
		`{"schema":1,"ts":1795348800000,"domain":"api","outcome":"raised","allowed":true}`,
		asked{noon + 1, "a", "read", true}.line(2),
	}
	report := run(t, naivePolicy, replay.Options{Inputs: []replay.Input{textInput("a", strings.Join(lines, "\n"), events(nil))}})
	want := replay.Reading{Lines: 9, Bad: 6, Skipped: 1}
	if diff := cmp.Diff(want, report.Reading, cmpopts.IgnoreFields(replay.Reading{}, "Troubles")); diff != "" || report.Requests != 2 {
		t.Errorf("%d requests, %s", report.Requests, diff)
	}
	var at []int
	for _, trouble := range report.Reading.Troubles {
		at = append(at, trouble.Line)
		if trouble.Line == 5 && trouble.Error != "longer than 256 KiB" {
			t.Errorf("a huge line: %s", trouble.Error)
		}
	}
	if !slices.Equal(at, []int{2, 3, 5, 6, 7, 8}) {
		t.Errorf("%v: %+v", at, report.Reading.Troubles)
	}
}

// Events with hashed values find the rules that name them, by the key of the hashes; without it
// the replay says that it cannot tell.
func TestHashedEvents(t *testing.T) {
	h, err := keyname.NewHasher(identity.NewSecret("a key for tests, of 32 bytes or more"))
	if err != nil {
		t.Fatal(err)
	}
	list := traffic(6000)
	total, byRule, _, _ := count(list)
	var hashed strings.Builder
	for i, a := range list {
		line := a.line(i)
		user := h.HashValue("api", descriptor.Entry{Key: "user", Value: a.user})
		op := h.HashValue("api", descriptor.Entry{Key: "op", Value: a.op})
		line = strings.ReplaceAll(line, `"user:`+a.user, `"user:`+user)
		line = strings.ReplaceAll(line, "op:"+a.op, "op:"+op)
		hashed.WriteString(strings.Replace(line, `"key_hashed":false`, `"key_hashed":true`, 1) + "\n")
	}
	set := testrules.Load(t, naivePolicy)
	values := replay.Unhide(h, nil, set)
	report := run(t, naivePolicy, replay.Options{Values: values, Inputs: []replay.Input{textInput("a", hashed.String(), events(values))}})
	if diff := cmp.Diff(total, report.Counts); diff != "" {
		t.Error(diff)
	}
	for _, r := range report.Rules {
		if r.NewlyDenied != byRule[r.Rule] {
			t.Errorf("rule %q: %d, want %d", r.Rule, r.NewlyDenied, byRule[r.Rule])
		}
	}

	o := replay.Options{Candidate: set, Inputs: []replay.Input{textInput("a", hashed.String(), events(nil))}}
	var lack *replay.LackError
	if _, err := replay.Run(t.Context(), o); !errors.As(err, &lack) || lack.Lacks != replay.Hashed || !strings.Contains(err.Error(), "api.user.op_write") {
		t.Errorf("%v, want that the rule of a value cannot be compared", err)
	}
	o.Partial = true
	if report, err := replay.Run(t.Context(), o); err != nil || report.Lacks["hashed"] != 6000 || len(report.Notes) == 0 {
		t.Errorf("%v %+v", err, report)
	}
	// With another key nothing is found, and with the right one a pattern still is none for hashes.
	values = replay.Unhide(keyname.Random(), nil, set)
	o = replay.Options{Candidate: set, Values: values, Inputs: []replay.Input{textInput("a", hashed.String(), events(values))}}
	if _, err := replay.Run(t.Context(), o); !errors.Is(err, replay.ErrHashKey) {
		t.Errorf("%v, want that the key is another one", err)
	}
	set = testrules.Load(t, "domain: api\ndescriptors:\n- {key: user, value: \"u1*\", rate_limit: {unit: minute, requests_per_unit: 1}}\n")
	values = replay.Unhide(h, nil, set)
	o = replay.Options{Candidate: set, Values: values, Inputs: []replay.Input{textInput("a", hashed.String(), events(values))}}
	if _, err := replay.Run(t.Context(), o); !errors.As(err, &lack) || lack.Lacks != replay.Hashed {
		t.Errorf("%v, want that a pattern cannot be compared", err)
	}
	// A rule that is for any value needs no key.
	report = run(t, "domain: api\ndescriptors:\n- {key: user, rate_limit: {unit: minute, requests_per_unit: 1}}\n",
		replay.Options{Inputs: []replay.Input{textInput("a", hashed.String(), events(nil))}})
	if report.NewlyDenied == 0 {
		t.Errorf("%+v", report)
	}
}

// What events lack is an error, unless it is wanted all the same.
func TestEventsThatLackSomething(t *testing.T) {
	plain := asked{noon, "a", "read", true}.line(1)
	for name, c := range map[string]struct {
		line string
		want replay.Lack
	}{
		"sampled": {strings.Replace(plain, `"sample_rate":1`, `"sample_rate":100`, 1), replay.Sampled},
		"cut":     {strings.Replace(plain, `"rule"`, `"descriptors_cut":true,"rule"`, 1), replay.Cut},
		"one_key": {plain[:strings.Index(plain, `"descriptors"`)] + plain[strings.Index(plain, `"rule"`):], replay.OneKey},
	} {
		o := replay.Options{Candidate: testrules.Load(t, naivePolicy), Inputs: []replay.Input{textInput("a", c.line, events(nil))}}
		var lack *replay.LackError
		if _, err := replay.Run(t.Context(), o); !errors.As(err, &lack) || lack.Lacks != c.want {
			t.Errorf("%s: %v", name, err)
		}
		o.Partial = true
		report, err := replay.Run(t.Context(), o)
		if err != nil || report.Lacks[name] != 1 || report.Matched != 1 || len(report.Notes) != 1 {
			t.Errorf("%s: %v %+v", name, err, report)
		}
	}
}

// With rules of today these are asked, whatever was recorded.
func TestRulesOfToday(t *testing.T) {
	list := traffic(6000)
	for i := range list {
		list[i].allowed = true
	}
	total, _, _, _ := count(list)
	open := "domain: api\ndescriptors:\n- {key: nobody, rate_limit: {unit: minute, requests_per_unit: 1}}\n"
	inputs := func() []replay.Input { return []replay.Input{textInput("a", file(list), events(nil))} }
	report := run(t, open, replay.Options{Inputs: inputs(), Current: testrules.Load(t, naivePolicy)})
	want := replay.Counts{Requests: total.Requests, DeniedBefore: total.DeniedAfter, NewlyAllowed: total.DeniedAfter}
	if diff := cmp.Diff(want, report.Counts); diff != "" || report.Matched != 0 {
		t.Errorf("%d matched, %s", report.Matched, diff)
	}
	if k := report.AllowedKeys.Keys; len(k) == 0 || !strings.HasPrefix(k[0].Key, "user:u") {
		t.Errorf("%+v", k)
	}
	report = run(t, naivePolicy, replay.Options{Inputs: inputs(), Current: testrules.Load(t, naivePolicy)})
	if report.Same() != total.Requests || report.DeniedAfter != total.DeniedAfter {
		t.Errorf("%+v", report.Counts)
	}
}

// Time outside of the bounds is left out.
func TestSinceAndUntil(t *testing.T) {
	lines := file([]asked{{noon, "a", "read", true}, {noon + 1000, "a", "read", true}, {noon + 2000, "a", "read", true}})
	report := run(t, naivePolicy, replay.Options{
		Inputs: []replay.Input{textInput("a", lines, events(nil))},
		Since:  time.UnixMilli(noon + 1000), Until: time.UnixMilli(noon + 2000),
	})
	if report.Requests != 1 || report.From.UnixMilli() != noon+1000 {
		t.Errorf("%+v", report)
	}
}

// What warms buckets up is charged, and not counted.
func TestWarmUp(t *testing.T) {
	report := run(t, "domain: api\ndescriptors:\n- {key: user, rate_limit: {unit: minute, requests_per_unit: 1, algorithm: fixed_window}}\n", replay.Options{
		Inputs: []replay.Input{textInput("a", file([]asked{{noon, "a", "read", true}, {noon + 999, "a", "read", true}, {noon + 1000, "a", "read", true}}), events(nil))},
		WarmUp: time.Second,
	})
	if report.Requests != 1 || report.NewlyDenied != 1 || report.From.UnixMilli() != noon+1000 {
		t.Errorf("%+v", report)
	}
}

// Keys that have no room are an error and not a figure.
func TestKeysWithoutRoom(t *testing.T) {
	list := make([]asked, 100_000)
	for i := range list {
		list[i] = asked{noon, fmt.Sprint(i), "read", true}
	}
	_, err := replay.Run(t.Context(), replay.Options{
		Candidate: testrules.Load(t, naivePolicy), MaxBytes: 1 << 20, Inputs: []replay.Input{textInput("a", file(list), events(nil))},
	})
	if !errors.Is(err, replay.ErrFull) {
		t.Error(err)
	}
}
