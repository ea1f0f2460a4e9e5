package rls

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// noon is when scripts begin: 30 seconds into a minute, so that windows that are
// aligned have 30 seconds left.
var noon = time.Date(2026, time.November, 20, 12, 0, 30, 0, time.UTC)

// script of the whole service: rules, then requests and what is answered.
type serviceScript struct {
	name   string
	compat bool
	shadow bool // for all rules
	rules  string
	steps  []step
}

// step is one request: "DOMAIN: descriptor | descriptor", each descriptor a list
// of key=value, and of its options *HITS (hits_addend of the descriptor), -HITS
// (the same, as a refund) and @N/UNIT (limit override). hits_addend of the
// request is written +N behind the domain.
type step struct {
	at      time.Duration // after noon
	request string
	want    string
}

// answerText writes an answer as scripts do: the overall code, then the
// statuses, each with the name, quota, unit, remaining and reset of its limit.
func answerText(resp *rlsv3.RateLimitResponse) string {
	text := func(code rlsv3.RateLimitResponse_Code) string {
		return strings.Replace(code.String(), "OVER_LIMIT", "OVER", 1)
	}
	var b strings.Builder
	b.WriteString(text(resp.OverallCode) + ":")
	for i, s := range resp.Statuses {
		if i > 0 {
			b.WriteString(" |")
		}
		b.WriteString(" " + text(s.Code))
		if l := s.CurrentLimit; l != nil {
			fmt.Fprintf(&b, " %s %d/%s", l.Name, l.RequestsPerUnit, strings.ToLower(l.Unit.String()))
			if l.UnitMultiplier != nil {
				fmt.Fprintf(&b, "x%d", l.UnitMultiplier.Value)
			}
			fmt.Fprintf(&b, " left=%d reset=%d", s.LimitRemaining, s.DurationUntilReset.GetSeconds())
		} else if s.LimitRemaining != 0 {
			fmt.Fprintf(&b, " left=%d", s.LimitRemaining)
		}
	}
	return b.String()
}

func parseRequest(t *testing.T, text string) *rlsv3.RateLimitRequest {
	t.Helper()
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("request %q: %v", text, err)
		}
		return n
	}
	head, body, _ := strings.Cut(text, ":")
	domain, hits, _ := strings.Cut(head, "+")
	req := &rlsv3.RateLimitRequest{Domain: domain}
	if hits != "" {
		req.HitsAddend = uint32(number(hits))
	}
	for part := range strings.SplitSeq(body, "|") {
		d := new(ratelimitv3.RateLimitDescriptor)
		for word := range strings.FieldsSeq(part) {
			switch word[0] {
			case '*':
				withHits(d, number(word[1:]))
			case '-':
				withHits(d, number(word[1:])).IsNegativeHits = true
			case '@':
				quota, unit, _ := strings.Cut(word[1:], "/")
				d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{
					RequestsPerUnit: uint32(number(quota)),
					Unit:            typev3.RateLimitUnit(typev3.RateLimitUnit_value[strings.ToUpper(unit)]),
				}
			default:
				key, value, _ := strings.Cut(word, "=")
				d.Entries = append(d.Entries, entries(key, value).Entries...)
			}
		}
		req.Descriptors = append(req.Descriptors, d)
	}
	return req
}

// limiter returns a real Limiter in memory whose clock is now.
func limiter(t testing.TB, text string, o rulefile.Options, shadow bool, now *time.Time) *headgate.Limiter {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{{Name: "rules.yaml", Data: []byte(text)}}, o)
	if err != nil {
		t.Fatal(err)
	}
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(*now) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { buckets.Close() })
	l, err := headgate.New(headgate.Options{Store: buckets, Rules: set, Shadow: shadow, Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func runScript(t *testing.T, sc serviceScript) {
	now := noon
	l := limiter(t, sc.rules, rulefile.Options{Compat: sc.compat}, sc.shadow, &now)
	s := newService(Options{Checker: l, Compat: sc.compat, Now: func() time.Time { return now }})
	for i, st := range sc.steps {
		now = noon.Add(st.at)
		resp, err := ask(t, s, parseRequest(t, st.request))
		if err != nil {
			t.Fatalf("step %d: %s: %v", i+1, st.request, err)
		}
		if got := answerText(resp); got != st.want {
			t.Errorf("step %d: %s\n got %s\nwant %s", i+1, st.request, got, st.want)
		}
	}
}

func TestCompatible(t *testing.T) {
	for _, sc := range compatScripts {
		sc.compat = true
		t.Run(sc.name, func(t *testing.T) { runScript(t, sc) })
	}
}

func TestPlain(t *testing.T) {
	for _, sc := range plainScripts {
		t.Run(sc.name, func(t *testing.T) { runScript(t, sc) })
	}
}

// away is a store that never decides.
type away struct{}

func (away) Take(_ context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		results[i] = store.Result{Err: &store.Error{Op: "take", Store: "away", Reason: store.Unavailable, Err: errors.New("refused")}}
	}
}
func (away) Close() error { return nil }

// E1: a store that is away meets the failure mode of the rule, never an error.
func TestFailureModes(t *testing.T) {
	set, err := rulefile.Load([]rulefile.File{{Name: "rules.yaml", Data: []byte(`
domain: d
descriptors:
- {key: open, rate_limit: {name: o, unit: minute, requests_per_unit: 5}}
- {key: closed, failure_mode: closed, rate_limit: {name: c, unit: minute, requests_per_unit: 5}}
`)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := headgate.New(headgate.Options{Store: away{}, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	s := newService(Options{Checker: l, Headers: envoyHeaders})
	for request, want := range map[string]string{
		"d: open=x":            "OK: OK",
		"d: closed=x":          "OVER: OVER",
		"d: closed=x -1":       "OK: OK",
		"d: open=x | closed=x": "OVER: OK | OVER",
	} {
		resp, err := ask(t, s, parseRequest(t, request))
		if err != nil {
			t.Fatal(err)
		}
		if got := answerText(resp); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
		headers := headersOf(resp)
		if strings.HasPrefix(want, "OVER") != (headers["retry-after"] == "1") || headers["RateLimit-Remaining"] != "" {
			t.Errorf("%s: headers %v", request, headers)
		}
	}
}

// A1 to A9 with metadata of real rules.
func TestMetadataOfRules(t *testing.T) {
	now := noon
	l := limiter(t, `
domain: d
descriptors:
- {key: a, metadata: {team: core, tags: [x, 1, true]}, rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: b, metadata: {team: late}, rate_limit: {unit: minute, requests_per_unit: 0}}
`, rulefile.Options{Compat: true}, false, &now)
	resp, err := ask(t, newService(Options{Checker: l, DynamicMetadata: true}), parseRequest(t, "d: a=1 | b=1"))
	if err != nil {
		t.Fatal(err)
	}
	got := resp.DynamicMetadata.GetFields()["metadata"].GetStructValue().AsMap()
	if fmt.Sprint(got) != "map[tags:[x 1 true] team:core]" {
		t.Errorf("metadata %v", got)
	}
}

func fivePerMinuteOverride() *ratelimitv3.RateLimitDescriptor_RateLimitOverride {
	return &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: typev3.RateLimitUnit_MINUTE}
}
