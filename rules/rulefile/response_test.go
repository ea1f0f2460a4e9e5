package rulefile

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/rules"
)

func TestSoft(t *testing.T) {
	for keys, want := range map[string]rules.Soft{
		"{at: 80%}":                                                        {Percent: 80},
		"{at: 1, action: warn}":                                            {Percent: 1},
		"{at: 80%, action: , value: }":                                     {Percent: 80},
		"{at: 99%, action: delay, delay: 1s}":                              {Percent: 99, Action: rules.Delay, Delay: time.Second},
		"{at: 50, action: degrade, header: X-Degraded}":                    {Percent: 50, Action: rules.Degrade, Header: "X-Degraded", Value: "1"},
		"{at: 50, action: degrade, header: x, value: no images; yes~}":     {Percent: 50, Action: rules.Degrade, Header: "x", Value: "no images; yes~"},
		"{at: 50, action: challenge, challenge: captcha_2-b}":              {Percent: 50, Action: rules.Challenge, Challenge: "captcha_2-b"},
		"{at: 50, action: degrade, header: \"!#$%&'*+-.^_`|~\", value: 5}": {Percent: 50, Action: rules.Degrade, Header: "!#$%&'*+-.^_`|~", Value: "5"},
	} {
		r := guarded(t, "soft_limit: "+keys+", "+limitText)
		if r.Soft == nil || *r.Soft != want {
			t.Errorf("%s: %+v, want %+v", keys, r.Soft, want)
		}
	}
	if r := guarded(t, "soft_limit: , "+limitText); r.Soft != nil {
		t.Errorf("%+v without a soft_limit", r.Soft)
	}
}

func TestBoundsOfResponses(t *testing.T) {
	for _, test := range []struct{ fits, tooLong string }{
		{"answer: {message: " + strings.Repeat("m", rules.MaxMessage) + "}", "answer: {message: " + strings.Repeat("m", rules.MaxMessage+1) + "}"},
		{"soft_limit: {at: 5%, action: degrade, header: " + strings.Repeat("h", 64) + "}", "soft_limit: {at: 5%, action: degrade, header: " + strings.Repeat("h", 65) + "}"},
		{"soft_limit: {at: 5%, action: degrade, header: h, value: " + strings.Repeat("v", 256) + "}", "soft_limit: {at: 5%, action: degrade, header: h, value: " + strings.Repeat("v", 257) + "}"},
		{"soft_limit: {at: 5%, action: challenge, challenge: " + strings.Repeat("c", 64) + "}", "soft_limit: {at: 5%, action: challenge, challenge: " + strings.Repeat("c", 65) + "}"},
	} {
		guarded(t, test.fits+", "+limitText)
		message := refused(t, []byte("domain: d\ndescriptors: [{key: k, "+test.tooLong+", "+limitText+"}]"))
		if len(message) > 400 {
			t.Errorf("the error is as long as the text: %s", message)
		}
	}
}

func TestAnswerOfTheFileIsTheDefault(t *testing.T) {
	set := mustLoad(t, strings.ReplaceAll(`
domain: d
descriptors:
- {key: a, LIMIT}
- {key: b, answer: {headers: draft-7, x_ratelimit: on, message: No.}, LIMIT}
- {key: c, answer: {body: flat, headers: draft-6, x_ratelimit: off, x_ratelimit_reset: unix, message: Mine.}, LIMIT}
- {key: e, answer: {}, LIMIT}
- {key: f, rate_limit: {unlimited: true}}
answer: {body: problem, headers: off, x_ratelimit: off, x_ratelimit_reset: delta}
`, "LIMIT", limitText), Options{})
	for i, want := range []string{
		"body problem, headers off, x_ratelimit off, x_ratelimit_reset delta",
		`body problem, headers draft-7, x_ratelimit on, x_ratelimit_reset delta, message "No."`,
		`body flat, headers draft-6, x_ratelimit off, x_ratelimit_reset unix, message "Mine."`,
		"body problem, headers off, x_ratelimit off, x_ratelimit_reset delta",
		"",
	} {
		if got := set.Rules()[i].Answer.String(); got != want {
			t.Errorf("rule %d answers %s, want %s", i, got, want)
		}
	}
	for _, text := range []string{"answer: {}", "answer: ", "answer: {body: }"} {
		r := mustLoad(t, "domain: d\n"+text+"\ndescriptors: [{key: k, "+limitText+"}]", Options{}).Rules()[0]
		if r.Answer != nil {
			t.Errorf("%s: %+v", text, r.Answer)
		}
	}
}

// Of merged files, each speaks for its own rules.
func TestAnswersOfMergedFiles(t *testing.T) {
	file := func(name, key, answer string) File {
		return File{name, []byte("domain: d\n" + answer + "\ndescriptors: [{key: " + key + ", " + limitText + "}]")}
	}
	set, err := Load([]File{file("a.yaml", "a", "answer: {body: flat}"), file("b.yaml", "b", ""), file("c.yaml", "c", "answer: {body: problem}")}, Options{MergeDomains: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range set.Rules() {
		got = append(got, r.Answer.String())
	}
	if text := strings.Join(got, "|"); text != "body flat||body problem" {
		t.Errorf("answers %s", text)
	}
}

func TestPriorityWords(t *testing.T) {
	for word, want := range map[string]string{
		"p0": "p0", "P1": "p1", "p2": "p2", "p3": "p3", "critical": "p0", "CRITICAL": "p0", "Test": "p3", `" p1 "`: "p1", "": "",
	} {
		if r := guarded(t, "priority: "+word+", "+limitText); r.Priority != want {
			t.Errorf("priority %s is %q, want %q", word, r.Priority, want)
		}
	}
}

// A rule without limits has nothing to say.
func TestResponseWithoutLimitIsWarnedOf(t *testing.T) {
	set := mustLoad(t, "domain: d\ndescriptors: [{key: k, soft_limit: {at: 80%}, answer: {body: flat}, priority: p0}]", Options{})
	if len(set.Warnings()) != 3 {
		t.Errorf("warnings are %v, want one for each key", set.Warnings())
	}
}
