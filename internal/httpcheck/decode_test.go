package httpcheck

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

func decode(body string) ([]headgate.Request, bool, *strictjson.Error) {
	d := decoder{limits: newCallerLimits()}
	err := d.decode(body)
	return d.requests, d.batch, err
}

// from is r as o sent it.
func from(r headgate.Request, o headgate.Origin) headgate.Request {
	r.Origin = o
	return r
}

func TestDecode(t *testing.T) {
	user := []descriptor.Entry{{Key: "user", Value: "42"}}
	byRule := func(d headgate.Descriptor) headgate.Request {
		d.Entries = user
		return headgate.Request{Domain: "api", Descriptors: []headgate.Descriptor{d}}
	}
	byCaller := func(spec limit.Spec, window string, hits int64, op store.Op) headgate.Request {
		return headgate.Request{Domain: headgate.CallerDomain, Descriptors: []headgate.Descriptor{{
			Entries: []descriptor.Entry{{Key: "key", Value: "k"}, {Key: "window_ms", Value: window}},
			Hits:    hits, Op: op, Limit: limit.Must(spec),
		}}}
	}
	const entries = `"entries":[{"key":"user","value":"42"}]`
	cases := []struct {
		name, body string
		want       headgate.Request
	}{
		{"hits default", `{"domain":"api","descriptors":[{` + entries + `}]}`, byRule(headgate.Descriptor{Hits: 1})},
		{"peek", `{"domain":"api","descriptors":[{` + entries + `,"hits":0}]}`, byRule(headgate.Descriptor{})},
		{"hits", ` { "descriptors" : [ { "hits" : 7 , ` + entries + ` } ] , "domain" : "api" } `, byRule(headgate.Descriptor{Hits: 7})},
		{"negative", `{"domain":"api","descriptors":[{` + entries + `,"hits":-7}]}`, byRule(headgate.Descriptor{Hits: 7, Op: store.Refund})},
		{"refund", `{"domain":"api","descriptors":[{` + entries + `,"hits":7,"op":"refund"}]}`, byRule(headgate.Descriptor{Hits: 7, Op: store.Refund})},
		{"refund of one", `{"domain":"api","descriptors":[{` + entries + `,"op":"refund"}]}`, byRule(headgate.Descriptor{Hits: 1, Op: store.Refund})},
		{"reset", `{"domain":"api","descriptors":[{` + entries + `,"op":"reset"}]}`, byRule(headgate.Descriptor{Op: store.Reset})},
		{"most hits", `{"domain":"api","descriptors":[{` + entries + `,"hits":1125899906842624}]}`, byRule(headgate.Descriptor{Hits: limit.MaxQuota})},
		{"escapes", `{"domain":"a\u0070i","descriptors":[{"entries":[{"key":"us\u0065r","value":"\u0034\u0032"}]}]}`, byRule(headgate.Descriptor{Hits: 1})},
		{"text form", `{"domain":"api","descriptors":[{"descriptor":"user:42"}]}`, byRule(headgate.Descriptor{Hits: 1})},
		{
			"strange values", `{"domain":"api","descriptors":[{"entries":[{"key":"\u0000{}","value":"\ud83d\ude00\"\\\/\b\f\n\r\t"},{"key":"k"}]}],"attributes":{"header:x-cost":"5"}}`,
			headgate.Request{
				Domain:      "api",
				Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "\x00{}", Value: "😀\"\\/\b\f\n\r\t"}, {Key: "k"}}, Hits: 1}},
				Attributes:  []descriptor.Entry{{Key: "header:x-cost", Value: "5"}},
			},
		},
		{"worked example", `{"key":"k","limit":100,"window_ms":60000,"hits":1}`, byCaller(limit.PerMinute(100), "60000", 1, store.Hit)},
		{"hits default", `{"key":"k","limit":100,"window_ms":60000}`, byCaller(limit.PerMinute(100), "60000", 1, store.Hit)},
		{"weight, the older name", `{"key":"k","limit":100,"window_ms":60000,"weight":5}`, byCaller(limit.PerMinute(100), "60000", 5, store.Hit)},
		{"hits 0", `{"key":"k","limit":0,"window_ms":1,"hits":0}`, byCaller(limit.Spec{Period: time.Millisecond}, "1", 0, store.Hit)},
		{"hits -3", `{"key":"k","limit":100,"window_ms":60000,"hits":-3}`, byCaller(limit.PerMinute(100), "60000", 3, store.Refund)},
		{"key reset", `{"key":"k","limit":100,"window_ms":60000,"op":"reset"}`, byCaller(limit.PerMinute(100), "60000", 0, store.Reset)},
		{"renew", `{"domain":"api","descriptors":[{` + entries + `,"op":"renew"}]}`, byRule(headgate.Descriptor{Op: store.Renew})},
		{"release", `{"domain":"api","descriptors":[{` + entries + `,"hits":7,"op":"release"}]}`, byRule(headgate.Descriptor{Hits: 7, Op: store.Release})},
		{
			"algorithm", `{"key":"k","limit":10,"window_ms":1000,"algorithm":"gcra","burst":20}`,
			byCaller(limit.Spec{Algorithm: limit.GCRA, Quota: 10, Period: time.Second, Burst: 20}, "1000", 1, store.Hit),
		},
		{
			"client", `{"client_ip":"::ffff:203.0.113.9","user_agent":"a \"b\"","domain":"api","descriptors":[{` + entries + `}]}`,
			from(byRule(headgate.Descriptor{Hits: 1}), headgate.Origin{ClientIP: netip.MustParseAddr("203.0.113.9"), UserAgent: `a "b"`}),
		},
		{
			"client of a key", `{"key":"k","limit":100,"window_ms":60000,"client_ip":"2001:db8::9"}`,
			from(byCaller(limit.PerMinute(100), "60000", 1, store.Hit), headgate.Origin{ClientIP: netip.MustParseAddr("2001:db8::9")}),
		},
		{"no client", `{"client_ip":"","user_agent":"","domain":"api","descriptors":[{` + entries + `}]}`, byRule(headgate.Descriptor{Hits: 1})},
	}
	sameAddress := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	sameLimit := cmp.Comparer(func(a, b *limit.Limit) bool { return (a == nil) == (b == nil) && (a == nil || a.Spec == b.Spec) })
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, batch, err := decode(c.body)
			if err != nil || batch {
				t.Fatalf("batch %v, error %v", batch, err)
			}
			if d := cmp.Diff([]headgate.Request{c.want}, got, sameLimit, sameAddress); d != "" {
				t.Errorf("request differs (-want +got):\n%s", d)
			}
			batched, batch, err := decode(`{"checks":[` + c.body + "," + c.body + `]}`)
			if err != nil || !batch {
				t.Fatalf("in a batch: batch %v, error %v", batch, err)
			}
			if d := cmp.Diff([]headgate.Request{c.want, c.want}, batched, sameLimit, sameAddress); d != "" {
				t.Errorf("in a batch: requests differ (-want +got):\n%s", d)
			}
		})
	}
}

// TestBadInput: every refusal names the place and what is wrong.
func TestBadInput(t *testing.T) {
	key := func(rest string) string { return `{"key":"k","limit":1,"window_ms":1000` + rest + `}` }
	rule := func(rest string) string { return `{"domain":"d","descriptors":[{"entries":[]` + rest + `}]}` }
	entry := func(rest string) string { return `{"domain":"d","descriptors":[{"entries":[{` + rest + `}]}]}` }
	cases := []struct {
		name, body string
		want       string
	}{
		{"empty", ``, "wants an object, got the end of the body"},
		{"space", " \n", "got the end of the body"},
		{"null", `null`, "wants an object, got null"},
		{"array", `[]`, "wants an object, got an array"},
		{"string", `"x"`, "got a string"},
		{"form", `key=k&limit=1`, `wants an object, got 'k' at offset 0`},
		{"no UTF-8 outside of strings", "\xff", "byte 0xff at offset 0"},
		{"nothing", `{}`, "a check needs domain and descriptors, or key, limit and window_ms"},
		{"trailing comma", `{"key":"k",}`, "wants a quoted name"},
		{"no colon", `{"key" "k"}`, "key: wants a colon"},
		{"no comma", `{"key":"k" "limit":1}`, "wants a comma or }"},
		{"unclosed", `{"key":"k"`, "wants a comma or }"},
		{"unquoted name", `{key:"k"}`, "wants a quoted name"},
		{"trailing garbage", key("") + "x", "text after the end"},
		{"two values", key("") + key(""), "text after the end of the JSON value: an object"},
		{"unknown member", `{"domain":"d","descriptor":[]}`, "descriptor: unknown member of a check"},
		{"other case", `{"Domain":"d"}`, `Domain: unknown member`},
		{"hostile name", "{\"a\\u0000\u202eb\":1}", `"a\x00\u202eb": unknown member`},
		{"unknown in descriptor", rule(`,"hit":1`), "descriptors[0].hit: unknown member of a descriptor"},
		{"unknown in entry", entry(`"key":"a","val":"b"`), "descriptors[0].entries[0].val: unknown member of an entry"},
		{"duplicate", `{"key":"a","key":"b"}`, "key: given twice"},
		{"duplicate by escape", `{"key":"a","\u006bey":"b"}`, "key: given twice"},
		{"duplicate attribute", `{"attributes":{"a":"1","a":"2"}}`, "attributes.a: given twice"},
		{"wrong type of domain", `{"domain":1}`, "domain: wants a string, got a number"},
		{"wrong type of limit", `{"limit":"100"}`, "limit: wants a whole number, got a string"},
		{"limit true", `{"limit":true}`, "limit: wants a whole number, got a boolean"},
		{"limit null", `{"limit":null}`, "leave it out"},
		{"limit NaN", `{"limit":NaN}`, "limit: wants a whole number, got 'N'"},
		{"limit Infinity", `{"limit":-Infinity}`, "limit: not a JSON number"},
		{"limit fraction", `{"limit":1.5}`, "fraction or an exponent"},
		{"limit exponent", `{"limit":1e3}`, "fraction or an exponent"},
		{"limit plus", `{"limit":+1}`, "wants a whole number"},
		{"limit leading zero", `{"limit":007}`, "not a JSON number"},
		{"limit minus", `{"limit":-}`, "not a JSON number"},
		{"limit negative", `{"limit":-1}`, "limit: out of range"},
		{"limit 2^53", `{"limit":9007199254740993}`, "limit: out of range"},
		{"limit 2^64", `{"limit":18446744073709551616}`, "limit: out of range"},
		{"window 0", `{"window_ms":0}`, "window_ms: out of range"},
		{"window negative", `{"window_ms":-60000}`, "window_ms: out of range"},
		{"window of 2 years", `{"window_ms":63072000000}`, "window_ms: out of range"},
		{"window that overflows", `{"window_ms":9223372036854775807}`, "window_ms: out of range"},
		{"hits 2^63", rule(`,"hits":9223372036854775808`), "descriptors[0].hits: out of range"},
		{"hits -2^63", rule(`,"hits":-9223372036854775808`), "descriptors[0].hits: out of range"},
		{"hits 2^63-1", rule(`,"hits":9223372036854775807`), "descriptors[0].hits: out of range"},
		{"burst 0", key(`,"burst":0`), "burst: out of range"},
		{"burst of a window", key(`,"burst":5`), "burst"},
		{"unknown algorithm", key(`,"algorithm":"magic"`), "algorithm: unknown algorithm"},
		{"ban of a caller", key(`,"algorithm":"ban"`), "algorithm: ban counts denials"},
		{"concurrency without a hold", key(`,"algorithm":"concurrency"`), "algorithm: concurrency counts requests in flight"},
		{"concurrency without a hold, told", key(`,"algorithm":"concurrency","hits":3`), "algorithm: concurrency counts requests in flight"},
		{"log too long", `{"key":"k","limit":1000000,"window_ms":1000,"algorithm":"sliding_log"}`, "limit: "},
		{"client with a port", key(`,"client_ip":"203.0.113.9:1"`), "client_ip: no IP address"},
		{"client with a zone", key(`,"client_ip":"fe80::1%eth0"`), "client_ip: no IP address"},
		{"client by name", key(`,"client_ip":"unknown"`), "client_ip: no IP address"},
		{"client of 1 MB", key(`,"client_ip":"` + strings.Repeat("1", 1_000_000) + `"`), "client_ip: no IP address"},
		{"client as a number", key(`,"client_ip":3405803785`), "client_ip: wants a string"},
		{"user agent as a list", key(`,"user_agent":["a"]`), "user_agent: wants a string"},
		{"client beside checks", `{"client_ip":"203.0.113.9","checks":[` + key("") + `]}`, "checks stands beside"},
		{"unknown op", key(`,"op":"drain"`), "op: unknown operation"},
		{"reset with weight", key(`,"op":"reset","hits":3`), "a reset takes no hits"},
		{"hits by both names", key(`,"hits":3,"weight":3`), "hits and weight in one check"},
		{"hits by both names, the older first", key(`,"weight":3,"hits":3`), "hits and weight in one check"},
		{"negative with op", key(`,"op":"hit","hits":-3`), "negative hits beside op"},
		{"missing window", `{"key":"k","limit":1}`, "needs limit and window_ms too"},
		{"missing limit", `{"key":"k","window_ms":1}`, "needs limit and window_ms too"},
		{"empty key", `{"key":"","limit":1,"window_ms":1}`, "key: empty"},
		{"two forms", `{"key":"k","limit":1,"window_ms":1,"domain":"d"}`, "members of two forms"},
		{"op beside domain", `{"domain":"d","descriptors":[],"op":"reset"}`, "members of two forms"},
		{"missing domain", `{"descriptors":[]}`, "needs domain and descriptors"},
		{"missing descriptors", `{"domain":"d"}`, "needs domain and descriptors"},
		{"no entries", `{"domain":"d","descriptors":[{"entries":[]}]}`, "descriptors[0]: a descriptor needs entries"},
		{"missing entries", `{"domain":"d","descriptors":[{}]}`, "descriptors[0]: a descriptor needs entries"},
		{"missing key", entry(`"value":"v"`), "descriptors[0].entries[0]: an entry needs a key"},
		{"entries and text", rule(`,"descriptor":"a:b"`), "descriptors[0].descriptor: entries and descriptor in one"},
		{"text without key", `{"domain":"d","descriptors":[{"descriptor":"a"}]}`, "descriptors[0].descriptor: parse descriptor"},
		{"reserved domain", `{"domain":"headgate.caller","descriptors":[]}`, "domain: reserved"},
		{"checks beside key", `{"checks":[` + key("") + `],"key":"k"}`, "checks stands beside members of a single check"},
		{"empty batch", `{"checks":[]}`, "checks: empty"},
		{"batch in batch", `{"checks":[{"checks":[]}]}`, "checks[0].checks: unknown member"},
		{"bad check in batch", `{"checks":[` + key("") + `,{"key":"k","limit":-1}]}`, "checks[1].limit: out of range"},
		{"not UTF-8", "{\"key\":\"\xff\"}", "key: not UTF-8"},
		{"not UTF-8 beside an escape", "{\"key\":\"\\n\xc3\"}", "key: not UTF-8"},
		{"lone surrogate", `{"key":"\ud800"}`, "key: a malformed escape"},
		{"wrong pair", `{"key":"\ud800\u0041"}`, "key: a malformed escape"},
		{"short escape", `{"key":"\u00"}`, "key: a malformed escape"},
		{"unknown escape", `{"key":"\x41"}`, "key: a malformed escape"},
		{"raw newline", "{\"key\":\"a\nb\"}", "key: control character 0x0a"},
		{"raw NUL", "{\"key\":\"\\ta\x00b\"}", "key: control character 0x00"},
		{"unclosed string", `{"key":"k`, "key: a string without an end"},
		{"unclosed escape", `{"key":"k\`, "key: a malformed escape"},
		{"deep array", strings.Repeat("[", 100_000), "wants an object, got an array"},
		{"deep object", strings.Repeat(`{"checks":[`, 50_000), "checks[0].checks: unknown member"},
		{"deep entries", `{"descriptors":` + strings.Repeat("[", 100_000), "descriptors[0]: wants an object"},
		{"a name of 1 MB", `{"` + strings.Repeat("n", 1_000_000) + `":1}`, "unknown member"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			requests, _, err := decode(c.body)
			if err == nil {
				t.Fatalf("accepted: %+v", requests)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q, want %q", err, c.want)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if err.Status != 0 {
				t.Errorf("status %d", err.Status)
			}
		})
	}
}

// TestBounds: more than the bounds is 413, the bounds themselves pass.
func TestBounds(t *testing.T) {
	repeat := func(n int, element string) string { return strings.TrimSuffix(strings.Repeat(element+",", n), ",") }
	checks := func(n int) string { return `{"checks":[` + repeat(n, `{"key":"k","limit":1,"window_ms":1}`) + `]}` }
	descriptors := func(n int) string { return `"descriptors":[` + repeat(n, `{"entries":[{"key":"a"}]}`) + `]` }
	entries := func(n int) string {
		return `{"domain":"d","descriptors":[{"entries":[` + repeat(n, `{"key":"a"}`) + `]}]}`
	}
	attributes := func(n int) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf(`"a%d":""`, i))
		}
		return `{"domain":"d","descriptors":[],"attributes":{` + strings.Join(names, ",") + `}}`
	}
	many := repeat(maxDescriptors/descriptor.MaxDescriptors, `{"domain":"d",`+descriptors(descriptor.MaxDescriptors)+`}`)
	for _, c := range []struct {
		name, fits, exceeds string
	}{
		{"checks", checks(maxChecks), checks(maxChecks + 1)},
		{"descriptors", `{"domain":"d",` + descriptors(descriptor.MaxDescriptors) + `}`, `{"domain":"d",` + descriptors(10_000) + `}`},
		{"descriptors of all checks", `{"checks":[` + many + `]}`, `{"checks":[` + many + `,{"domain":"d",` + descriptors(1) + `}]}`},
		{"entries", entries(descriptor.MaxEntries), entries(descriptor.MaxEntries + 1)},
		{"attributes", attributes(maxAttributes), attributes(maxAttributes + 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, err := decode(c.fits); err != nil {
				t.Errorf("at the bound: %v", err)
			}
			if _, _, err := decode(c.exceeds); err == nil || err.Status != http.StatusRequestEntityTooLarge {
				t.Errorf("beyond the bound: %v", err)
			}
		})
	}
}

// reference is what a body says by encoding/json, for comparison.
type reference struct {
	Domain      string
	Descriptors []struct {
		Entries    []descriptor.Entry
		Descriptor string
		Hits       *int64
		Op         string
	}
	Attributes    map[string]string
	Key           string
	Limit         int64
	Hits, Weight  *int64 // two names of one member
	Algorithm, Op string
	Burst         int64
	Hold          any
	Checks        []reference
}

// FuzzDecode: whatever the body, no panic; what is accepted is JSON, and
// encoding/json reads the same domains, entries and costs from it.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"42"}],"hits":1}]}`,
		`{"key":"user:42","limit":100,"window_ms":60000,"hits":1,"algorithm":"gcra","burst":20,"op":"hit"}`,
		`{"checks":[{"key":"k","limit":1,"window_ms":1},{"domain":"d","descriptors":[{"descriptor":"a:b","op":"reset"}],"attributes":{"a":"\u00e9"}}]}`,
		`{"key":"\ud83d\ude00\n","limit":0,"window_ms":1,"hits":-1}`, `{"key":"k","limit":0,"window_ms":1,"hits":0}`, `{"key":"k","limit":9,"window_ms":1,"weight":3}`,
		`{"domain":"d","hold":true,"descriptors":[{"descriptor":"a:b","op":"renew","hits":9}]}`,
		`{"key":"k","limit":1,"window_ms":1,"hold":"0a1b2c3d4e5f60","op":"release"}`,
		`{"key":"k","limit":1,"window_ms":1,"client_ip":"203.0.113.9","user_agent":"a\u0000"}`,
		`{"key":"k","limit":1,"window_ms":1,"id":"0 \u0000"}`, `{"checks":[{"domain":"d","descriptors":[{"descriptor":"a:b"}],"id":"1"},{"key":"k","limit":1,"window_ms":1}]}`,
		"{\"key\":\"\xff\"}", `{"limit":1e3}`, `{"checks":[]}`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		requests, batch, err := decode(body)
		if err != nil {
			if err.What == "" || err.Status != 0 && (err.Status < 400 || err.Status > 499) {
				t.Fatalf("refused with %+v", err)
			}
			return
		}
		if !json.Valid([]byte(body)) {
			t.Fatalf("accepted what is not JSON: %q", body)
		}
		var want reference
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatalf("encoding/json: %v", err)
		}
		checks := want.Checks
		if !batch {
			checks = []reference{want}
		}
		if len(checks) != len(requests) {
			t.Fatalf("%d requests of %d checks", len(requests), len(checks))
		}
		for i := range checks {
			verifyRequest(t, &checks[i], &requests[i])
			if hold := requests[i].Hold; (hold != 0) != (checks[i].Hold != nil) || hold > limit.MaxHold {
				t.Fatalf("hold %d of %v", hold, checks[i].Hold)
			}
		}
	})
}

func verifyRequest(t *testing.T, want *reference, got *headgate.Request) {
	hits := func(given *int64, op string) int64 {
		switch {
		case op == "reset", given == nil && (op == "renew" || op == "release"):
			return 0
		case given == nil:
			return 1
		}
		return int64(math.Abs(float64(*given)))
	}
	if want.Key != "" {
		d, given := got.Descriptors[0], want.Hits
		if given == nil {
			given = want.Weight
		}
		if got.Domain != headgate.CallerDomain || d.Entries[0].Value != want.Key || d.Limit.Quota != want.Limit || d.Hits != hits(given, want.Op) {
			t.Fatalf("%+v of %+v", got, want)
		}
		return
	}
	if got.Domain != want.Domain || len(got.Descriptors) != len(want.Descriptors) || len(got.Attributes) != len(want.Attributes) {
		t.Fatalf("%+v of %+v", got, want)
	}
	for i, d := range want.Descriptors {
		if got.Descriptors[i].Hits != hits(d.Hits, d.Op) {
			t.Fatalf("%+v of %+v", got.Descriptors[i], d)
		}
		for j, e := range d.Entries {
			if got.Descriptors[i].Entries[j] != e {
				t.Fatalf("%+v of %+v", got.Descriptors[i], d)
			}
		}
	}
}

const benchBody = `{"domain":"api_platform","descriptors":[{"entries":[{"key":"api_key","value":"abc123"},{"key":"endpoint","value":"POST /api/v1/orders"}]},{"entries":[{"key":"remote_address","value":"192.168.1.100"}],"hits":1}]}`

func BenchmarkDecode(b *testing.B) {
	d := decoder{limits: newCallerLimits()}
	b.ReportAllocs()
	for b.Loop() {
		d.requests, d.descriptors, d.entries = d.requests[:0], d.descriptors[:0], d.entries[:0]
		if err := d.decode(benchBody); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeEncodingJSON is the same body by reflection, for comparison.
func BenchmarkDecodeEncodingJSON(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var r reference
		if err := json.Unmarshal([]byte(benchBody), &r); err != nil {
			b.Fatal(err)
		}
	}
}
