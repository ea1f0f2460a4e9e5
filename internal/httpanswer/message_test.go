package httpanswer

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// sentence returns the message of a rule; text has to be one.
func sentence(text string) *rules.Message {
	m, err := rules.ParseMessage(text)
	if err != nil {
		panic(err)
	}
	return m
}

// denialBy is a denial of the request of user:42 for POST /v1/orders, by a rule that
// says message.
func denialBy(message, user string) (*headgate.Request, *headgate.Response) {
	rule := &rules.Rule{ID: "writes", Telling: rules.Telling{Answer: &rules.Answer{Message: sentence(message)}}}
	minute := limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 20, Period: time.Minute})
	req := &headgate.Request{Domain: "api", Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{
		{Key: "user", Value: user}, {Key: "endpoint", Value: "POST /v1/orders"}, {Key: "flag"},
	}}}}
	return req, &headgate.Response{Verdicts: []headgate.Verdict{
		{Rule: rule, Depth: 3, Limit: minute, Decision: limit.Decision{Limit: 20, RetryAfter: 41*time.Second + 1}},
	}}
}

// messageOf returns what the body of a denial says.
func messageOf(t testing.TB, body Body, req *headgate.Request, resp *headgate.Response) string {
	t.Helper()
	e := encoder(t, Options{Body: body})
	s := e.Summarize(resp)
	var said struct {
		Error   json.RawMessage
		Message string
		Detail  string
	}
	raw := e.AppendBody(nil, req, resp, &s)
	if err := json.Unmarshal(raw, &said); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	switch body {
	case Problem:
		return said.Detail
	case Flat:
		return said.Message
	}
	var inner struct{ Message string }
	if err := json.Unmarshal(said.Error, &inner); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return inner.Message
}

func TestPlaceholders(t *testing.T) {
	for message, want := range map[string]string{
		"Too many requests for {entry.user} on {entry.endpoint}.": "Too many requests for 42 on POST /v1/orders.",
		"{key}": "user:42, endpoint:POST /v1/orders, flag",
		"{rule}: {limit} per {window}, again in {retry_after} s": "writes: 20 per 1m, again in 42 s",
		"{route} by {rule}":                        "POST /v1/orders by writes",
		"{{{limit}}} {entry.nobody}|{entry.flag}|": "{20} ||",
	} {
		req, resp := denialBy(message, "42")
		for _, body := range []Body{Platform, Flat, Problem} {
			if got := messageOf(t, body, req, resp); got != want {
				t.Errorf("%v: %s: %q, want %q", body, message, got, want)
			}
		}
	}
}

// A message of a request that nobody knows names no key.
func TestPlaceholdersWithoutARequest(t *testing.T) {
	_, resp := denialBy("{key}|{entry.user}|{limit}", "42")
	if got := messageOf(t, Flat, nil, resp); got != "||20" {
		t.Errorf("%q", got)
	}
}

// What is not counted by is not named: here all users of an endpoint share a count.
func TestPlaceholdersNameWhatIsCounted(t *testing.T) {
	set := testrules.Load(t, `
domain: api
descriptors:
  - key: endpoint
    rate_limit: {unit: minute, requests_per_unit: 20}
    answer: {message: "{key}"}
`)
	req, resp := denialBy("no", "42")
	req.Descriptors[0].Entries = req.Descriptors[0].Entries[1:]
	resp.Verdicts[0].Rule, resp.Verdicts[0].Depth = set.Rules()[0], 1
	if got := messageOf(t, Flat, req, resp); got != "endpoint:POST /v1/orders" {
		t.Errorf("%q", got)
	}
}

// Values come from clients: whatever bytes they have, the body is one JSON object, its
// text is UTF-8 and bounded.
func FuzzPlaceholders(f *testing.F) {
	f.Add("{key} {entry.user}", "42")
	f.Add("{entry.user}", "a\"\\\n\x00</script>\xff\u2028")
	f.Add(strings.Repeat("{key}", 100), strings.Repeat("é", 40_000))
	f.Add("}{", "")
	f.Fuzz(func(t *testing.T, message, user string) {
		if _, err := rules.ParseMessage(message); err != nil || len(message) > rules.MaxMessage || message == "" {
			return
		}
		req, resp := denialBy(message, user)
		for _, body := range []Body{Platform, Flat, Problem} {
			if got := messageOf(t, body, req, resp); !utf8.ValidString(got) || len(got) > 3*(maxMessageText+len(cutMark)) {
				t.Errorf("%d bytes: %q", len(got), got)
			}
		}
	})
}

func TestLongValuesAreCut(t *testing.T) {
	req, resp := denialBy("{entry.user}", strings.Repeat("é", 100))
	if got, want := messageOf(t, Flat, req, resp), strings.Repeat("é", maxEntryInMessage/2)+cutMark; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	req, resp = denialBy("x{entry.user}", "x"+strings.Repeat("é", 100))
	if got, want := messageOf(t, Flat, req, resp), "xx"+strings.Repeat("é", maxEntryInMessage/2-1)+cutMark; got != want {
		t.Errorf("cut within a character: %q, want %q", got, want)
	}
}

// The route is told where the limit counts by something else, from another descriptor if need be.
func TestRouteOfAnotherDescriptor(t *testing.T) {
	req, resp := denialBy("{route}|", "42")
	resp.Verdicts[0].Depth = 1
	if got := messageOf(t, Platform, req, resp); got != "POST /v1/orders|" {
		t.Errorf("counted by the user: %q", got)
	}
	req.Descriptors = append([]headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "remote_address", Value: "192.0.2.1"}}}}, req.Descriptors...)
	if got := messageOf(t, Platform, req, resp); got != "POST /v1/orders|" {
		t.Errorf("of another descriptor: %q", got)
	}
	req.Descriptors = append(req.Descriptors[:1], headgate.Descriptor{Entries: []descriptor.Entry{{Key: "path", Value: "/a\"}<b>\x00"}, {Key: "route", Value: "r"}}})
	if got := messageOf(t, Flat, req, resp); got != "r|" {
		t.Errorf("a route before a path: %q", got)
	}
	req.Descriptors[1].Entries = req.Descriptors[1].Entries[:1]
	if got := messageOf(t, Flat, req, resp); got != "/a\"}<b>\x00|" {
		t.Errorf("what has to be escaped: %q", got)
	}
	if got := messageOf(t, Flat, &headgate.Request{Descriptors: req.Descriptors[:1]}, resp); got != "|" {
		t.Errorf("of none: %q", got)
	}
}
