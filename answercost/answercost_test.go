package answercost_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/answercost"
)

func newShape(t testing.TB, counts []answercost.Count) *answercost.Shape {
	t.Helper()
	s, err := answercost.New(answercost.Options{Counts: counts})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const (
	asJSON   = "application/json; charset=utf-8"
	asEvents = "text/event-stream"
)

func header(kind, encoding string) http.Header {
	h := http.Header{"Content-Type": {kind}}
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
	}
	return h
}

// read meters parts of an answer.
func read(s *answercost.Shape, a answercost.Asked, h http.Header, parts ...[]byte) answercost.Used {
	m := s.Meter(a, h)
	for _, p := range parts {
		_, _ = m.Write(p)
	}
	return m.Close()
}

// answer is one body and what it costs, when the request had 400 bytes.
type answer struct {
	name   string
	counts []answercost.Count
	kind   string
	body   string
	want   []int64
	told   bool
	guess  bool
}

const (
	openAIChat = `{"id":"chatcmpl-1","object":"chat.completion","model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant",` +
		`"content":"A \"quoted\" {\"usage\":{\"prompt_tokens\":9999}} text\u4e2d\\"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":0}},"system_fingerprint":null}`
	openAIStream = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}\n\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello, how are you\"}}],\"usage\":null}\n\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":null}\n\n" +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,\"total_tokens\":29}}\n\n" +
		"data: [DONE]\n\n"
	anthropicStream = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"usage\":{\"input_tokens\":25,\"cache_creation_input_tokens\":7,\"cache_read_input_tokens\":100,\"output_tokens\":1}}}\n\n" +
		"event: ping\ndata: {\"type\": \"ping\"}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello there!\"}}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

// cut is a stream without what begins with a text.
func cut(body, at string) string { return body[:strings.Index(body, at)] }

var answers = []answer{
	{"chat completion", answercost.OpenAI(), asJSON, openAIChat, []int64{19, 10}, true, false},
	{"chat completion with a mark", answercost.OpenAI(), asJSON, "\xef\xbb\xbf" + openAIChat, []int64{19, 10}, true, false},
	{"response", answercost.OpenAI(), asJSON, `{"output":[{"content":[{"type":"output_text","text":"Hello"}]}],"usage":{"input_tokens":36,"output_tokens":87,"total_tokens":123}}`, []int64{36, 87}, true, false},
	{"usage before the text", answercost.OpenAI(), asJSON, `{"usage":{"input_tokens":36,"output_tokens":2},"output":[{"content":[{"text":"Hello Hello Hello"}]}]}`, []int64{36, 2}, true, false},
	{"embeddings", answercost.OpenAI(), asJSON, `{"data":[{"embedding":[0.1,-2e-3,[],{}]}],"usage":{"prompt_tokens":8,"total_tokens":8}}`, []int64{8, 0}, true, false},
	{"stream of a chat", answercost.OpenAI(), asEvents, openAIStream, []int64{19, 10}, true, false},
	{"stream with CR LF, comments and ids", answercost.OpenAI(), asEvents, ": hello\r\nid: 7\r\n" + strings.ReplaceAll(openAIStream, "\n", "\r\n"), []int64{19, 10}, true, false},
	{"stream with CR", answercost.OpenAI(), asEvents, strings.ReplaceAll(openAIStream, "\n", "\r"), []int64{19, 10}, true, false},
	{"stream without spaces", answercost.OpenAI(), asEvents, strings.ReplaceAll(openAIStream, "data: ", "data:"), []int64{19, 10}, true, false},
	{"event in several lines of data", answercost.OpenAI(), asEvents, "data: {\"usage\":\ndata: {\"prompt_tokens\":\ndata:3,\"completion_tokens\": 4}}\n\n", []int64{3, 4}, true, false},
	{"stream that tells all the time", answercost.OpenAI(), asEvents, "data: {\"choices\":[{\"delta\":{\"content\":\"aaaaaaaa\"}}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\n" +
		"data: {\"choices\":[{\"delta\":{\"content\":\"aaaaaaaa\"}}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n", []int64{3, 2}, true, false},
	{"stream of a response", answercost.OpenAI(), asEvents, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi, hi\"}\n\n" +
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":37,\"output_tokens\":11}}}\n\n", []int64{37, 11}, true, false},
	// 18 bytes of text; 400 of the request.
	{"stream that does not tell", answercost.OpenAI(), asEvents, cut(openAIStream, `data: {"choices":[],"usage"`), []int64{100, 5}, false, true},
	{"stream cut in a text", answercost.OpenAI(), asEvents, cut(openAIStream, ", how"), []int64{100, 2}, false, true},
	{"newline-delimited", []answercost.Count{{Name: "n", Paths: []string{"eval_count"}}}, "application/x-ndjson", "{\"done\":false}\n{\"done\":true,\"eval_count\":7}\n", []int64{7}, true, false},

	{"message", answercost.Anthropic(), asJSON, `{"content":[{"type":"text","text":"Hi"}],"usage":{"input_tokens":12,"output_tokens":6,"cache_read_input_tokens":3}}`, []int64{12, 6, 0, 3}, true, false},
	{"stream of a message", answercost.Anthropic(), asEvents, anthropicStream, []int64{25, 15, 7, 100}, true, false},
	{"stream of a message, cut", answercost.Anthropic(), asEvents, cut(anthropicStream, "event: message_delta"), []int64{25, 4, 7, 100}, true, true},

	{"nothing", answercost.OpenAI(), asJSON, "", []int64{100, 0}, false, true},
	{"no JSON", answercost.OpenAI(), asJSON, "<html>", []int64{100, 0}, false, true},
	{"too deep", answercost.OpenAI(), asJSON, `{"x":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `,"usage":{"prompt_tokens":1}}`, []int64{100, 0}, false, true},
	{"deep", answercost.OpenAI(), asJSON, `{"x":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `,"usage":{"prompt_tokens":1}}`, []int64{1, 0}, true, false},
	{"huge numbers", answercost.OpenAI(), asJSON, `{"usage":{"prompt_tokens":1e300,"completion_tokens":-5}}`, []int64{1 << 40, 0}, true, false},
	{"a number of a thousand digits", answercost.OpenAI(), asJSON, `{"usage":{"prompt_tokens":` + strings.Repeat("1", 1000) + `,"completion_tokens":5}}`, []int64{100, 5}, true, true},
	{"fractions", answercost.OpenAI(), asJSON, `{"usage":{"prompt_tokens":2.25,"completion_tokens":5.0}}`, []int64{3, 5}, true, false},
	{"escaped names", answercost.OpenAI(), asJSON, `{"us\u0061ge":{"prompt_tokens":2,"completion_tokens":5}}`, []int64{2, 5}, true, false},
	{"the number is a text", answercost.OpenAI(), asJSON, `{"usage":{"prompt_tokens":"2","completion_tokens":5}}`, []int64{100, 5}, true, true},
	{"a number alone", answercost.OpenAI(), asJSON, `7`, []int64{100, 0}, false, true},
	{"the number is where the answer is cut", answercost.OpenAI(), asJSON, `{"usage":{"prompt_tokens":2,"completion_tokens":57`, []int64{2, 57}, true, false},

	{"the last one", []answercost.Count{{Name: "n", Paths: []string{"n"}, Fold: answercost.Last}}, asEvents, "data: {\"n\":5}\n\ndata: {\"n\":3}\n\n", []int64{3}, true, false},
	{"the most", []answercost.Count{{Name: "n", Paths: []string{"n"}}}, asEvents, "data: {\"n\":5}\n\ndata: {\"n\":3}\n\n", []int64{5}, true, false},
	{"the sum", []answercost.Count{{Name: "n", Paths: []string{"n"}, Fold: answercost.Sum}}, asEvents, "data: {\"n\":5}\n\ndata: {\"n\":3}\n\n", []int64{8}, true, false},
	{"an element", []answercost.Count{{Name: "n", Paths: []string{"$.list.1.n"}}}, asJSON, `{"list":[{"n":1},{"n":2},{"n":3}]}`, []int64{2}, true, false},
	{"each element", []answercost.Count{{Name: "n", Paths: []string{"list.*.n"}, Fold: answercost.Sum}}, asJSON, `{"list":[{"n":1},{"n":2},[],{"n":3}],"n":9}`, []int64{6}, true, false},
	{"the element of an array", []answercost.Count{{Name: "n", Paths: []string{"*.n"}}}, asJSON, `[{"n":1},{"n":2}]`, []int64{2}, true, false},
}

var asked = answercost.Asked{Bytes: 400}

func TestAnswers(t *testing.T) {
	for _, a := range answers {
		t.Run(a.name, func(t *testing.T) {
			got := read(newShape(t, a.counts), asked, header(a.kind, ""), []byte(a.body))
			if !slices.Equal(got.Counts, a.want) || got.Told != a.told || got.Guessed != a.guess {
				t.Errorf("%+v, want %v, told %v, guessed %v", got, a.want, a.told, a.guess)
			}
		})
	}
}

// TestAnswersInParts: an answer costs the same however its bytes come, cut at each place and
// byte by byte, and compressed.
func TestAnswersInParts(t *testing.T) {
	for _, a := range answers {
		s, h, body := newShape(t, a.counts), header(a.kind, ""), []byte(a.body)
		check := func(how string, h http.Header, parts ...[]byte) {
			if got := read(s, asked, h, parts...); !slices.Equal(got.Counts, a.want) {
				t.Errorf("%s, %s: %v, want %v", a.name, how, got.Counts, a.want)
			}
		}
		var bytewise [][]byte
		for i := range body {
			check(fmt.Sprintf("cut at %d", i), h, body[:i], body[i:])
			bytewise = append(bytewise, body[i:i+1])
		}
		check("byte by byte", h, bytewise...)
		zipped := header(a.kind, "gzip")
		packed := pack(t, bytewise...)
		check("compressed", zipped, packed)
		var parts [][]byte
		for i := range packed {
			parts = append(parts, packed[i:i+1])
		}
		check("compressed, byte by byte", zipped, parts...)
	}
}

// pack compresses parts, each of them flushed.
func pack(t testing.TB, parts ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, p := range parts {
		if _, err := z.Write(p); err != nil {
			t.Fatal(err)
		}
		if err := z.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestCompressedAndCut: of a compressed stream that is cut counts what came.
func TestCompressedAndCut(t *testing.T) {
	events := strings.SplitAfter(anthropicStream, "\n\n")
	var parts [][]byte
	for _, e := range events {
		parts = append(parts, []byte(e))
	}
	packed := pack(t, parts...)
	whole := pack(t, parts[:3]...)
	whole = whole[:len(whole)-13] // without the end: an empty block of 5 bytes and the check
	if !bytes.HasPrefix(packed, whole) {
		t.Fatal("the beginnings differ")
	}
	got := read(newShape(t, answercost.Anthropic()), asked, header(asEvents, "gzip"), whole)
	if want := []int64{25, 4, 7, 100}; !slices.Equal(got.Counts, want) {
		t.Errorf("%v, want %v", got.Counts, want)
	}
	if got := read(newShape(t, answercost.Anthropic()), asked, header(asEvents, "gzip"), []byte("no gzip"), bytes.Repeat([]byte("x"), 1<<20)); got.Told {
		t.Errorf("what is no gzip: %+v", got)
	}
}

func TestReadable(t *testing.T) {
	for _, tt := range []struct {
		kind, encoding string
		want           bool
	}{
		{"application/json", "", true}, {"text/event-stream; charset=utf-8", "gzip", true}, {"application/problem+json", "identity", true},
		{"APPLICATION/JSON", "GZIP", true}, {"audio/mpeg", "", false}, {"", "", false}, {"application/json", "br", false}, {"application/json", "gzip, gzip", false},
	} {
		if got := answercost.Readable(header(tt.kind, tt.encoding)); got != tt.want {
			t.Errorf("%q, %q: %v", tt.kind, tt.encoding, got)
		}
	}
}

func TestAsk(t *testing.T) {
	s := newShape(t, answercost.OpenAI())
	for _, tt := range []struct {
		name, body, model string
		want              []int64
	}{
		{"a chat", `{"model":"gpt-4o","messages":[{"role":"user","content":"model"}],"max_tokens":50}`, "gpt-4o", []int64{21, 50}},
		{"no ceiling", `{"model":"gpt-4o"}`, "gpt-4o", []int64{5, 1000}},
		{"no limit of -1", `{"model":"m","max_tokens":-1}`, "m", []int64{8, 1000}},
		{"a ceiling beyond the largest estimate", `{"max_output_tokens":1e9}`, "", []int64{7, 32_000}},
		{"the last model counts", `{"model":"a","model":"b"}`, "b", []int64{7, 1000}},
		{"escaped", `{"mod\u0065l":"\u0062"}`, "b", []int64{6, 1000}},
		{"not in another object", `{"x":{"model":"a"}}`, "", []int64{5, 1000}},
		{"another spelling", `{"Model":"a"}`, "", []int64{4, 1000}},
		{"no text", `{"model":7}`, "", []int64{3, 1000}},
		{"too long a name", `{"model":"a","model":"` + strings.Repeat("b", 300) + `"}`, "", []int64{81, 1000}},
		{"two documents", `{"model":"a"}{"model":"b"}`, "a", []int64{7, 1000}},
		{"no JSON", "--boundary\r\n", "", []int64{3, 1000}},
		{"nothing", "", "", []int64{0, 1000}},
	} {
		got := s.Ask([]byte(tt.body))
		if got.Model != tt.model || !slices.Equal(got.Estimate, tt.want) || got.Bytes != int64(len(tt.body)) {
			t.Errorf("%s: %+v, want model %q, %v", tt.name, got, tt.model, tt.want)
		}
	}
}

func TestCost(t *testing.T) {
	s := newShape(t, []answercost.Count{
		{Name: "input", Paths: []string{"a"}}, {Name: "output", Paths: []string{"b"}, Weight: 4 * answercost.WeightOne},
		{Name: "cached", Paths: []string{"c"}, Weight: 100}, {Name: "seen", Paths: []string{"d"}, Free: true},
	})
	counts := []int64{10, 20, 31, 1000}
	for name, want := range map[string]int64{answercost.Total: 94, "input": 10, "output": 20, "cached": 31, "seen": 1000, "other": 0} {
		if got := s.Cost(name, counts); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	huge := []int64{1 << 62, 1 << 62, 1 << 62, 1 << 62}
	if got := s.Cost(answercost.Total, huge); got <= 0 || got > answercost.MaxCost {
		t.Errorf("huge: %d", got)
	}
	if got := s.Estimated(answercost.Total, answercost.Asked{Estimate: huge}); got != answercost.DefaultMaxEstimate {
		t.Errorf("estimate: %d", got)
	}
	if got := fmt.Sprint(s.Names(), s.Has("output"), s.Has("x")); got != "[total input output cached seen] true false" {
		t.Error(got)
	}
}

func TestNewRefuses(t *testing.T) {
	ok := answercost.Count{Name: "n", Paths: []string{"n"}}
	many := make([]string, 65)
	for i := range many {
		many[i] = "n"
	}
	for want, o := range map[string]answercost.Options{
		"0 counts":        {},
		"largest":         {Counts: []answercost.Count{ok}, MaxEstimate: -1},
		"two of it":       {Counts: []answercost.Count{ok, ok}},
		"no name":         {Counts: []answercost.Count{{Name: "total", Paths: []string{"n"}}}},
		"no paths":        {Counts: []answercost.Count{{Name: "n"}}},
		"empty name":      {Counts: []answercost.Count{{Name: "n", Paths: []string{"a..b"}}}},
		"model":           {Counts: []answercost.Count{ok}, Model: "."},
		"too long":        {Counts: []answercost.Count{{Name: "n", Paths: []string{strings.Repeat("a.", 16) + "a"}}}},
		"too many paths":  {Counts: []answercost.Count{{Name: "n", Paths: many}}},
		"weights are":     {Counts: []answercost.Count{{Name: "n", Paths: []string{"n"}, Weight: -1}}},
		`count "a b"`:     {Counts: []answercost.Count{{Name: "a b", Paths: []string{"n"}}}},
		"path \"a.\" has": {Counts: []answercost.Count{{Name: "n", Paths: []string{"n"}, Text: []string{"a."}}}},
	} {
		if _, err := answercost.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestNothingIsKept: an answer of many megabytes takes as little memory as a short one.
func TestNothingIsKept(t *testing.T) {
	s := newShape(t, answercost.OpenAI())
	part := []byte(strings.Repeat(`{"embedding":["`+strings.Repeat("x", 1000)+`",1,2,3]},`, 60))
	m := s.Meter(asked, header(asJSON, ""))
	write := func(p []byte) { _, _ = m.Write(p) }
	write([]byte(`{"data":[`))
	if got := testing.AllocsPerRun(100, func() { write(part) }); got != 0 {
		t.Errorf("%v allocations for %d bytes", got, len(part))
	}
	write([]byte(`{}],"usage":{"prompt_tokens":8}}`))
	if got := m.Close(); !slices.Equal(got.Counts, []int64{8, 0}) {
		t.Errorf("%+v", got)
	}
}

// TestFoundAsJSONHasIt: what encoding/json would read is found, in whatever parts it comes.
func TestFoundAsJSONHasIt(t *testing.T) {
	s := newShape(t, []answercost.Count{{Name: "n", Paths: []string{"a.b"}, Fold: answercost.Last}})
	value := rapid.SampledFrom([]string{`1`, `"x\"y"`, `{}`, `[1,{"b":2}]`, `{"b":[3]}`, `null`, `true`, `{"a":{"b":4}}`, "[]", "-1.5e3"})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1000).Draw(t, "n")
		body := fmt.Sprintf(`{"c":%s,"a":{"x":%s,"b":%d,"y":%s},"d":%s}`, value.Draw(t, "c"), value.Draw(t, "x"), n, value.Draw(t, "y"), value.Draw(t, "d"))
		at := rapid.IntRange(0, len(body)).Draw(t, "at")
		if got := read(s, asked, header(asJSON, ""), []byte(body[:at]), []byte(body[at:])); got.Counts[0] != n {
			t.Fatalf("%s: %d, want %d", body, got.Counts[0], n)
		}
	})
}

// FuzzMeter: whatever comes, in whatever parts, costs the same and is in its bounds.
func FuzzMeter(f *testing.F) {
	for _, a := range answers {
		f.Add([]byte(a.body), uint(7), a.kind == asEvents)
	}
	shape := newShape(f, slices.Concat(answercost.OpenAI(), []answercost.Count{{Name: "any", Paths: []string{"*.*", "*"}, Text: []string{"*.*.*"}, Fold: answercost.Sum}}))
	f.Fuzz(func(t *testing.T, body []byte, at uint, isStream bool) {
		h := header(asJSON, "")
		if isStream {
			h = header(asEvents, "")
		}
		i := int(at % uint(len(body)+1))
		whole, parts := read(shape, asked, h, body), read(shape, asked, h, body[:i], body[i:])
		if !slices.Equal(whole.Counts, parts.Counts) || whole.Told != parts.Told || whole.Guessed != parts.Guessed {
			t.Fatalf("%+v, in parts %+v", whole, parts)
		}
		for _, n := range whole.Counts {
			if n < 0 || n > 1<<40 {
				t.Fatalf("count %d", n)
			}
		}
		_ = read(shape, asked, header(asJSON, "gzip"), body)
		if a := shape.Ask(body); len(a.Model) > 256*3 || shape.Estimated(answercost.Total, a) > answercost.DefaultMaxEstimate {
			t.Fatalf("%+v", a)
		}
	})
}
