package httpanswer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

var inFlight = limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 20, Period: time.Minute})

// guardedText is a rule with a limit of every role.
const guardedText = `
domain: edge
descriptors:
  - key: api_key
    name: edge.key
    rate_limit: {unit: minute, requests_per_unit: 100}
    concurrency: 20
    secondary_limits:
      - {name: pacing, unit: hour, requests_per_unit: 2000}
      - {name: sustained, concurrency: 10, over: 10m}
    ban: {after: 20, within: 1m, for: 15m}
    soft_limit: {at: 80%, action: warn}
`

// guarded returns what that rule says of a request that passes; change makes
// something else of it.
func guarded(t *testing.T, change func(byRole map[rules.Role]*headgate.Verdict)) headgate.Response {
	t.Helper()
	set := testrules.Load(t, guardedText)
	rule := set.Rules()[0]
	resp := headgate.Response{DomainKnown: true, Allowed: true}
	for _, named := range rule.Limits {
		resp.Verdicts = append(resp.Verdicts, headgate.Verdict{
			Rule: rule, Limit: named.Limit, Name: named.Name, Role: named.Role, Hits: 1,
			Decision: limit.Decision{Allowed: true, Limit: named.Quota, Remaining: named.Quota / 2, ResetAfter: 42 * time.Second},
		})
	}
	byRole := map[rules.Role]*headgate.Verdict{}
	for i := range resp.Verdicts {
		byRole[resp.Verdicts[i].Role] = &resp.Verdicts[i]
	}
	if len(byRole) != 5 {
		t.Fatalf("%d roles, want all 5", len(byRole))
	}
	change(byRole)
	for i := range resp.Verdicts {
		resp.Allowed = resp.Allowed && !resp.Verdicts[i].OverLimit()
	}
	return resp
}

// denying returns the change by which the limits of a role deny.
func denying(role rules.Role, retry time.Duration) func(map[rules.Role]*headgate.Verdict) {
	return func(byRole map[rules.Role]*headgate.Verdict) {
		d := &byRole[role].Decision
		d.Allowed, d.Remaining, d.RetryAfter = false, 0, retry
	}
}

// failing returns the change by which the store decides nothing.
func failing(allowed bool) func(map[rules.Role]*headgate.Verdict) {
	return func(byRole map[rules.Role]*headgate.Verdict) {
		for _, v := range byRole {
			v.By, v.Degraded = verdict.ByFailureMode, store.Timeout
			v.Decision = limit.Decision{Allowed: allowed, Limit: v.Limit.Quota}
			if !allowed {
				v.Decision.RetryAfter = time.Second
			}
		}
	}
}

// TestEveryAnswer holds all that clients can hear against testdata/every: for each
// outcome a file with each generation and each body.
func TestEveryAnswer(t *testing.T) {
	cases := []struct {
		name   string
		status int
		code   string
		change func(map[rules.Role]*headgate.Verdict)
	}{
		{"allowed", 200, "", func(map[rules.Role]*headgate.Verdict) {}},
		{"denied", 429, "RATE_LIMITED", denying(rules.Main, 42*time.Second)},
		{"concurrency", 429, "CONCURRENCY_LIMITED", denying(rules.InFlight, 55*time.Second)},
		{"secondary", 429, "SECONDARY_RATE_LIMITED", denying(rules.Secondary, 1800*time.Second)},
		{"sustained", 429, "SECONDARY_RATE_LIMITED", denying(rules.Sustained, 30*time.Second)},
		{"banned", 429, "BANNED", denying(rules.Banning, 14*time.Minute)},
		{"failed-closed", 503, "SERVICE_UNAVAILABLE", failing(false)},
		{"failed-open", 200, "", failing(true)},
		{"soft-warn", 200, "", func(byRole map[rules.Role]*headgate.Verdict) { byRole[rules.Main].Decision.Remaining = 20 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			resp := guarded(t, c.change)
			var got strings.Builder
			for _, g := range []Generation{Draft8, Draft7, Draft6, NoDraft} {
				for _, b := range []Body{Platform, Flat, Problem} {
					o := Options{Generation: g, Body: b}
					fmt.Fprintf(&got, "# %s, %s\n%s\n", g, b, transcript(t, o, &resp))
					s, fields := fieldsOf(encoder(t, o), &resp, exampleNow)
					verifyFields(t, o, &resp, &s, fields)
					if s.Status != c.status || !resp.Allowed && s.Code() != c.code {
						t.Errorf("%s, %s: status %d, code %s; want %d, %s", g, b, s.Status, s.Code(), c.status, c.code)
					}
				}
			}
			golden(t, filepath.Join("every", c.name+".txt"), got.String())
		})
	}
}

// golden holds got against a file in testdata, or rewrites that.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", file, d)
	}
}

// TestWhatIsNotAdvertised: clients hear nothing of secondary limits and bans until
// these deny, in no generation.
func TestWhatIsNotAdvertised(t *testing.T) {
	allowed := guarded(t, func(byRole map[rules.Role]*headgate.Verdict) {
		byRole[rules.Secondary].Decision.Remaining = 1 // less than any other
		byRole[rules.Sustained].Decision.Remaining = 1
		byRole[rules.Banning].Decision.Remaining = 1
	})
	alone := headgate.Response{Allowed: true, Verdicts: allowed.Verdicts[2:]}
	for _, resp := range []*headgate.Response{&allowed, &alone} {
		for _, g := range []Generation{Draft8, Draft7, Draft6, NoDraft} {
			_, fields := fieldsOf(encoder(t, Options{Generation: g}), resp, exampleNow)
			for name, value := range fields {
				for _, hidden := range []string{"pacing", "sustained", "ban", "2000", "6000000", "q=20;w"} {
					if strings.Contains(value, hidden) {
						t.Errorf("%s: %s: %s tells of %s", g, name, value, hidden)
					}
				}
			}
			if resp == &alone && len(fields) != 0 {
				t.Errorf("%s: nothing to tell, but %v", g, fields)
			}
		}
	}
}

// TestConcurrencySpeaksLast: a denial by a count says when to return, so it speaks
// where a slot is missing as well; and a ban before all.
func TestConcurrencySpeaksLast(t *testing.T) {
	both := guarded(t, func(byRole map[rules.Role]*headgate.Verdict) {
		denying(rules.Main, 5*time.Second)(byRole)
		denying(rules.InFlight, 55*time.Second)(byRole)
	})
	all := guarded(t, func(byRole map[rules.Role]*headgate.Verdict) {
		for role := range byRole {
			denying(role, time.Duration(role+1)*time.Minute)(byRole)
		}
		byRole[rules.Banning].Decision.RetryAfter = 7 * time.Second
	})
	for want, resp := range map[string]*headgate.Response{"RATE_LIMITED 5": &both, "BANNED 7": &all} {
		s, _ := fieldsOf(encoder(t, Options{}), resp, exampleNow)
		if got := fmt.Sprint(s.Code(), " ", s.RetryAfterSeconds()); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestSlotRetryIsJittered: those who found no slot return one after the other.
func TestSlotRetryIsJittered(t *testing.T) {
	resp := guarded(t, denying(rules.InFlight, 55*time.Second))
	s := encoder(t, Options{Jitter: Jitter{1, func() float64 { return 0.5 }}}).Summarize(&resp)
	if s.RetryAfter != 1500*time.Millisecond || s.RetryAfterSeconds() != 1 {
		t.Errorf("retry after %v", s.RetryAfter)
	}
}

// schemaWords returns the words that the schema of rules allows for a key of
// `answer`.
func schemaWords(t *testing.T, key string) []string {
	t.Helper()
	var schema struct {
		Defs struct {
			Answer struct {
				Properties map[string]struct{ Enum []string }
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(rulefile.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	return schema.Defs.Answer.Properties[key].Enum
}

// TestWordsOfRules: what a rule may say of answers is what there is here, word for
// word, and each word does what the option of that name does.
func TestWordsOfRules(t *testing.T) {
	keys := map[string]struct {
		words  []string
		option func(word string) Options
	}{
		"body":    {bodyNames[:], func(w string) Options { b, _ := ParseBody(w); return Options{Body: b} }},
		"headers": {generationNames[:], func(w string) Options { g, _ := ParseGeneration(w); return Options{Generation: g} }},
		"x_ratelimit_reset": {resetNames[:], func(w string) Options {
			r, _ := ParseResetFormat(w)
			return Options{Reset: r}
		}},
		"x_ratelimit": {[]string{xOn, xOff}, func(w string) Options { return Options{OmitX: w == xOff} }},
	}
	for key, c := range keys {
		if d := cmp.Diff(schemaWords(t, key), c.words); d != "" {
			t.Errorf("%s: words of rules and words of answers differ (-rules +answers):\n%s", key, d)
		}
		for _, word := range c.words {
			text := guardedText + fmt.Sprintf("    answer: {%s: %s}\n", key, word)
			set, err := rulefile.Load([]rulefile.File{{Name: "edge.yaml", Data: []byte(text)}}, rulefile.Options{})
			if err != nil {
				t.Errorf("%s: %s: %v", key, word, err)
				continue
			}
			resp := guarded(t, denying(rules.Main, 42*time.Second))
			want := transcript(t, c.option(word), &resp)
			for i := range resp.Verdicts {
				resp.Verdicts[i].Rule = set.Rules()[0]
			}
			other := Options{Body: Flat, Generation: Draft7, Reset: DeltaSeconds, OmitX: true}
			switch key { // all but the key is the front's
			case "body":
				other = Options{Body: Problem}
			case "headers":
				other = Options{Generation: Draft6}
			case "x_ratelimit":
				other = Options{OmitX: true}
			case "x_ratelimit_reset":
				other = Options{Reset: DeltaSeconds}
			}
			if d := cmp.Diff(want, transcript(t, other, &resp)); d != "" {
				t.Errorf("%s: %s: the rule does not come before the front (-want +got):\n%s", key, word, d)
			}
		}
	}
}

// TestMessageOfRule: a rule's own sentence stands in each body, escaped, for
// denials that are counts.
func TestMessageOfRule(t *testing.T) {
	const own = `Write to "sales" for more.`
	say := func(resp headgate.Response, b Body) map[string]any {
		for i := range resp.Verdicts {
			rule := *resp.Verdicts[i].Rule
			rule.Answer = &rules.Answer{Message: sentence(own), Body: b.String()}
			resp.Verdicts[i].Rule = &rule
		}
		e := encoder(t, Options{})
		s := e.Summarize(&resp)
		var body map[string]any
		if err := json.Unmarshal(e.AppendBody(nil, nil, &resp, &s), &body); err != nil {
			t.Fatal(err)
		}
		if inner, ok := body["error"].(map[string]any); ok {
			return inner
		}
		return body
	}
	for b, key := range map[Body]string{Platform: "message", Flat: "message", Problem: "detail"} {
		if got := say(guarded(t, denying(rules.Main, time.Second)), b)[key]; got != own {
			t.Errorf("%s: %s %q, want the rule's", b, key, got)
		}
		if got := say(guarded(t, failing(false)), b)[key]; got == own {
			t.Errorf("%s: a denial that is no count says %q", b, got)
		}
	}
}

// TestUpstream: what soft limits tell the service behind, and only when they are
// reached.
func TestUpstream(t *testing.T) {
	verdict := func(soft *rules.Soft, remaining int64) headgate.Verdict {
		v := counted(perMinute, "", limit.Decision{Allowed: true, Limit: 100, Remaining: remaining})
		v.Rule = &rules.Rule{ID: "a", Telling: rules.Telling{Soft: soft}}
		return v
	}
	degrade := &rules.Soft{Percent: 80, Action: rules.Degrade, Header: "X-Degraded", Value: "1"}
	again := &rules.Soft{Percent: 80, Action: rules.Degrade, Header: "x-degraded", Value: "2"}
	captcha := &rules.Soft{Percent: 80, Action: rules.Challenge, Challenge: "captcha"}
	proof := &rules.Soft{Percent: 80, Action: rules.Challenge, Challenge: "proof"}
	resp := headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{
		verdict(degrade, 20), verdict(again, 20), verdict(captcha, 10), verdict(proof, 10), verdict(captcha, 10),
		verdict(&rules.Soft{Percent: 80}, 10),
	}}
	if got := fmt.Sprint(AppendUpstream(nil, &resp)); got != "[{X-Degraded 1} {X-RateLimit-Challenge captcha, proof}]" {
		t.Errorf("%s", got)
	}
	resp.Verdicts = []headgate.Verdict{verdict(degrade, 21), verdict(captcha, 21)}
	if got := AppendUpstream(nil, &resp); len(got) != 0 {
		t.Errorf("below the threshold: %v", got)
	}
	resp.Verdicts, resp.Allowed = []headgate.Verdict{verdict(degrade, 10)}, false
	if got := AppendUpstream(nil, &resp); len(got) != 0 {
		t.Errorf("denied: %v", got)
	}
}
