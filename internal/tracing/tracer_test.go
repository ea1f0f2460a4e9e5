package tracing

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/trace"
	"github.com/headgate/headgate/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const someRules = `
domain: d
descriptors:
- {key: user, rate_limit: {name: per-user, unit: hour, requests_per_unit: 2}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
`

func load(t testing.TB) *rules.Set {
	t.Helper()
	return testrules.Load(t, someRules)
}

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// receiver is a collector that speaks OTLP over HTTP.
type receiver struct {
	*httptest.Server
	resources chan *spans.ResourceSpans
	headers   chan http.Header
	// fail, when not nil, answers in place of the collector.
	fail atomic.Pointer[http.HandlerFunc]
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{resources: make(chan *spans.ResourceSpans, 1000), headers: make(chan http.Header, 1000)}
	r.Server = httptest.NewServer(http.HandlerFunc(r.receive))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) receive(w http.ResponseWriter, req *http.Request) {
	if fail := r.fail.Load(); fail != nil {
		(*fail)(w, req)
		return
	}
	if req.URL.Path != "/v1/traces" || req.Method != http.MethodPost || req.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not a message of traces", http.StatusNotFound)
		return
	}
	body, err := gzip.NewReader(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	data, err := io.ReadAll(body)
	var message collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(data, &message)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.headers <- req.Header
	for _, resource := range message.ResourceSpans {
		r.resources <- resource
	}
	answer, _ := proto.Marshal(&collector.ExportTraceServiceResponse{})
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Write(answer)
}

// failing makes the collector answer so, nil: as it should.
func (r *receiver) failing(how http.HandlerFunc) {
	if how == nil {
		r.fail.Store(nil)
	} else {
		r.fail.Store(&how)
	}
}

// spans waits for n spans.
func (r *receiver) spans(t *testing.T, n int) []*spans.Span {
	t.Helper()
	var got []*spans.Span
	for len(got) < n {
		select {
		case resource := <-r.resources:
			for _, scope := range resource.ScopeSpans {
				got = append(got, scope.Spans...)
			}
		case <-time.After(patience):
			t.Fatalf("%d spans of %d have come", len(got), n)
		}
	}
	return got
}

func newTracer(t testing.TB, o Options) *Tracer {
	t.Helper()
	if o.OnError == nil {
		o.OnError = func(err error) { t.Errorf("unexpected: %v", err) }
	}
	tracer, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTracer(t, tracer) })
	return tracer
}

func closeTracer(t testing.TB, tracer *Tracer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := tracer.Close(ctx); err != nil {
		t.Error(err)
	}
}

// sampled is a trace that its caller records.
func sampled(id byte) trace.Parent {
	return trace.Parent{ID: [16]byte{15: id}, Span: [8]byte{7: id + 1}, Sampled: true}
}

func request(trace trace.Parent) *headgate.Request {
	return &headgate.Request{
		Domain:      "d",
		Descriptors: []headgate.Descriptor{{Hits: 1, Entries: []descriptor.Entry{{Key: "user", Value: "secret-user"}}}},
		Origin:      headgate.Origin{Trace: trace, UserAgent: "secret-agent"},
	}
}

// attributes returns those of a span as text, in order.
func attributes(list []*common.KeyValue) string {
	var texts []string
	for _, a := range list {
		value := a.Value.GetStringValue()
		if _, ok := a.Value.Value.(*common.AnyValue_IntValue); ok {
			value = fmt.Sprint(a.Value.GetIntValue())
		}
		texts = append(texts, a.Key+"="+value)
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// What a collector gets of the decisions of a real limiter.
func TestSpansArrive(t *testing.T) {
	to := newReceiver(t)
	tracer := newTracer(t, Options{Endpoint: to.URL, Node: "node-1", Version: "1.2.3"})
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: load(t), Observer: tracer})
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	for range 3 {
		requests := []headgate.Request{*request(sampled(1))}
		if err := limiter.Check(t.Context(), requests, make([]headgate.Response, 1)); err != nil {
			t.Fatal(err)
		}
	}
	after := time.Now()
	var resource *spans.ResourceSpans
	select {
	case resource = <-to.resources:
	case <-time.After(patience):
		t.Fatal("no spans have come")
	}
	if got, want := attributes(resource.Resource.Attributes), "service.instance.id=node-1 service.name=headgate service.version=1.2.3"; got != want {
		t.Errorf("resource %s", got)
	}
	if len(resource.ScopeSpans) != 1 || resource.ScopeSpans[0].Scope.Name != "github.com/headgate/headgate" || len(resource.ScopeSpans[0].Spans) != 3 {
		t.Fatalf("%v", resource)
	}
	ids := map[string]bool{}
	for i, span := range resource.ScopeSpans[0].Spans {
		ids[hex.EncodeToString(span.SpanId)] = true
		if hex.EncodeToString(span.TraceId) != "00000000000000000000000000000001" || hex.EncodeToString(span.ParentSpanId) != "0000000000000002" {
			t.Errorf("span %x of trace %x has parent %x", span.SpanId, span.TraceId, span.ParentSpanId)
		}
		if span.Name != "headgate.check" || span.Kind != spans.Span_SPAN_KIND_INTERNAL || span.Status.GetCode() != spans.Status_STATUS_CODE_UNSET {
			t.Errorf("%v", span)
		}
		if span.StartTimeUnixNano < uint64(before.UnixNano()) || span.EndTimeUnixNano < span.StartTimeUnixNano || span.EndTimeUnixNano > uint64(after.UnixNano()) {
			t.Errorf("from %d to %d", span.StartTimeUnixNano, span.EndTimeUnixNano)
		}
		want := "headgate.domain=d headgate.limit_name=per-user headgate.outcome=" + []string{"allowed headgate.remaining=1", "allowed headgate.remaining=0", "denied headgate.remaining=0"}[i] + " headgate.rule=per-user"
		if got := attributes(span.Attributes); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		if strings.Contains(span.String(), "secret") {
			t.Errorf("%v", span)
		}
	}
	if len(ids) != 3 {
		t.Errorf("%d different spans", len(ids))
	}
	closeTracer(t, tracer)
	if s := tracer.Stats(); s != (Stats{Started: 3, Exported: 3}) {
		t.Errorf("%+v", s)
	}
}

// The outcome of a request, by the words of metrics, and what is an error.
func TestOutcomes(t *testing.T) {
	to := newReceiver(t)
	tracer := newTracer(t, Options{Endpoint: to.URL})
	rule := load(t).Rules()[0]
	said := func(allowed bool) headgate.Verdict {
		return headgate.Verdict{Rule: rule, Limit: rule.Limits[0].Limit, Decision: limit.Decision{Allowed: allowed}}
	}
	guess := func(allowed bool, why store.Reason) headgate.Verdict {
		v := said(allowed)
		v.By, v.Degraded = verdict.ByFailureMode, why
		return v
	}
	id := trace.NewDecisionID(time.Now())
	tests := []struct {
		resp headgate.Response
		op   store.Op
		want string
	}{
		{resp: headgate.Response{Allowed: true}, want: "headgate.domain=d headgate.outcome=unknown_domain"},
		{resp: headgate.Response{Allowed: true, DomainKnown: true}, want: "headgate.domain=d headgate.outcome=unmatched"},
		{resp: headgate.Response{Allowed: true, DomainKnown: true, ID: id, Verdicts: []headgate.Verdict{said(true)}},
			want: "headgate.decision_id=" + id.String() + " headgate.domain=d headgate.outcome=allowed headgate.remaining=0 headgate.rule=per-user"},
		{resp: headgate.Response{DomainKnown: true, Verdicts: []headgate.Verdict{guess(false, store.Timeout)}},
			want: "headgate.degraded=store_timeout headgate.domain=d headgate.outcome=degraded_denied headgate.rule=per-user"},
		{resp: headgate.Response{Allowed: true, DomainKnown: true, Verdicts: []headgate.Verdict{guess(true, store.Internal)}},
			want: "headgate.degraded=internal headgate.domain=d headgate.outcome=degraded_allowed headgate.rule=per-user error"},
		{resp: headgate.Response{Allowed: true, DomainKnown: true}, op: store.Refund, want: "headgate.domain=d headgate.op=refund headgate.outcome=unmatched"},
		{resp: headgate.Response{Allowed: true, DomainKnown: true}, op: store.Reset, want: "headgate.domain=d headgate.op=reset headgate.outcome=unmatched"},
		{resp: headgate.Response{Allowed: true, DomainKnown: true}, op: store.Charge, want: "headgate.domain=d headgate.op=charge headgate.outcome=unmatched"},
		{resp: headgate.Response{Allowed: true, DomainKnown: true}, op: store.Renew, want: "headgate.domain=d headgate.op=renew headgate.outcome=unmatched"},
		{resp: headgate.Response{Allowed: true, DomainKnown: true}, op: store.Release, want: "headgate.domain=d headgate.op=release headgate.outcome=unmatched"},
	}
	for i := range tests {
		req := request(sampled(1))
		req.Descriptors[0].Op = tests[i].op
		tracer.Decided(req, &tests[i].resp, time.Millisecond)
	}
	for i, span := range to.spans(t, len(tests)) {
		tt := &tests[i]
		got := attributes(span.Attributes)
		if span.Status.GetCode() == spans.Status_STATUS_CODE_ERROR {
			got += " error"
		}
		if got != tt.want {
			t.Errorf("%s\nwant\n%s", got, tt.want)
		}
		if span.EndTimeUnixNano-span.StartTimeUnixNano != uint64(time.Millisecond) {
			t.Errorf("it took %d", span.EndTimeUnixNano-span.StartTimeUnixNano)
		}
	}
}

// The caller decides what is recorded; who brings no trace may begin one.
func TestWhatIsRecorded(t *testing.T) {
	unsampled := sampled(1)
	unsampled.Sampled = false
	to := newReceiver(t)
	const n = 1000
	for _, tt := range []struct {
		name     string
		ratio    float64
		trace    trace.Parent
		from, to uint64
	}{
		{"a trace that is recorded", 0, sampled(1), n, n},
		{"a trace that is not", 1, unsampled, 0, 0},
		{"none", 0, trace.Parent{}, 0, 0},
		{"none, all begin one", 1, trace.Parent{}, n, n},
		{"none, a quarter begins one", 0.25, trace.Parent{}, 150, 350}, // seven standard deviations
		{"not a number", math.NaN(), trace.Parent{}, 0, 0},
		{"less than none", -1, trace.Parent{}, 0, 0},
		{"more than all", 7, trace.Parent{}, n, n},
	} {
		tracer := newTracer(t, Options{Endpoint: to.URL, Ratio: tt.ratio})
		req, resp := request(tt.trace), &headgate.Response{Allowed: true}
		for range n {
			tracer.Decided(req, resp, 0)
		}
		closeTracer(t, tracer)
		if s := tracer.Stats(); s.Started < tt.from || s.Started > tt.to || s.Exported != s.Started {
			t.Errorf("%s: %+v", tt.name, s)
		}
		roots := map[string]bool{}
		for _, span := range to.spans(t, int(tracer.Stats().Exported)) {
			if len(span.ParentSpanId) == 0 != tt.trace.IsZero() {
				t.Errorf("%s: %v", tt.name, span)
			}
			roots[string(span.TraceId)] = true
		}
		if tt.trace.IsZero() && uint64(len(roots)) != tracer.Stats().Started {
			t.Errorf("%s: %d traces", tt.name, len(roots))
		}
		tracer.Decided(nil, resp, 0) // of a decision that panicked
	}
}

// Strings of a request are copied, cut, and made what OTLP takes.
func TestDomainsOfAnyBytes(t *testing.T) {
	to := newReceiver(t)
	tracer := newTracer(t, Options{Endpoint: to.URL})
	req, resp := request(sampled(1)), &headgate.Response{}
	memory := []byte("domain")
	for _, domain := range []string{unsafe.String(&memory[0], len(memory)), "\xff\x00\n", strings.Repeat("é", 1<<16), strings.Repeat("\xc3", 1<<16)} {
		req.Domain = domain
		tracer.Decided(req, resp, 0)
	}
	copy(memory, "xxxxxx")
	for i, span := range to.spans(t, 4) {
		domain := span.Attributes[0].Value.GetStringValue()
		if i == 0 && domain != "domain" || len(domain) > 3*maxText || !utf8.ValidString(domain) || domain == "" {
			t.Errorf("%d bytes: %.40q", len(domain), domain)
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	to := newReceiver(t)
	tracer := newTracer(t, Options{Endpoint: to.URL, Ratio: 0.5, OnError: func(error) {}})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			req, resp := request(sampled(byte(worker))), &headgate.Response{Allowed: true}
			if worker%2 == 0 {
				req.Origin.Trace = trace.Parent{}
			}
			for range 500 {
				tracer.Decided(req, resp, time.Microsecond)
				tracer.Stats()
			}
		})
	}
	all.Go(func() { closeTracer(t, tracer) })
	all.Wait()
	if s := tracer.Stats(); s.Started != s.Exported+s.Failed+s.Dropped || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

func TestDecidedDoesNotAllocateWhereNothingIsRecorded(t *testing.T) {
	tracer := newTracer(t, Options{Endpoint: newReceiver(t).URL, Ratio: 1e-18})
	unsampled := sampled(1)
	unsampled.Sampled = false
	resp := &headgate.Response{Allowed: true}
	for _, req := range []*headgate.Request{request(unsampled), request(trace.Parent{})} {
		if n := alloctest.PerRun(1000, func() { tracer.Decided(req, resp, 0) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

func BenchmarkDecided(b *testing.B) {
	unsampled := sampled(1)
	unsampled.Sampled = false
	set := load(b)
	for _, bench := range []struct {
		name  string
		trace trace.Parent
	}{{"none", trace.Parent{}}, {"not_recorded", unsampled}, {"recorded", sampled(1)}} {
		b.Run(bench.name, func(b *testing.B) {
			tracer := newTracer(b, Options{Endpoint: newReceiver(b).URL, Ratio: 1e-9, OnError: func(error) {}})
			rule := set.Rules()[0]
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				req := request(bench.trace)
				resp := &headgate.Response{Allowed: true, DomainKnown: true, Verdicts: []headgate.Verdict{{Rule: rule, Limit: rule.Limits[0].Limit, Name: "per-user", Decision: limit.Decision{Allowed: true}}}}
				for pb.Next() {
					tracer.Decided(req, resp, time.Microsecond)
				}
			})
		})
	}
}
