package rls

import (
	"encoding/json"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/rules"
)

// envoyHeaders are the names that envoyproxy/ratelimit uses unless told otherwise.
var envoyHeaders = HeaderNames{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}

func TestResponseHeaders(t *testing.T) {
	modern, err := httpanswer.New(httpanswer.Options{OmitX: true})
	if err != nil {
		t.Fatal(err)
	}
	custom := HeaderNames{Limit: "x-limit", Reset: "x-reset"}
	tests := []struct {
		name    string
		options Options
		allowed bool
		verdict headgate.Verdict
		want    map[string]string
	}{
		{"off, allowed", Options{}, true, allowedVerdict(), map[string]string{}},
		{"off, denied", Options{}, false, denied(), map[string]string{"retry-after": "42"}},
		{"as envoyproxy/ratelimit, allowed", Options{Headers: envoyHeaders}, true, allowedVerdict(),
			map[string]string{"RateLimit-Limit": "100", "RateLimit-Remaining": "99", "RateLimit-Reset": "60"}},
		{"as envoyproxy/ratelimit, denied", Options{Headers: envoyHeaders}, false, denied(),
			map[string]string{"RateLimit-Limit": "5", "RateLimit-Remaining": "0", "RateLimit-Reset": "42", "retry-after": "42"}},
		{"other names", Options{Headers: custom}, true, allowedVerdict(), map[string]string{"x-limit": "100", "x-reset": "60"}},
		{"modern, denied", Options{Answer: modern}, false, denied(), map[string]string{
			"ratelimit-policy": `"five";q=5;w=60`, "ratelimit": `"five";r=0;t=42`,
			"retry-after": "42", "cache-control": "no-store", "content-type": "application/json",
		}},
		{"modern, allowed", Options{Answer: modern}, true, allowedVerdict(), map[string]string{
			"ratelimit-policy": `"per-tenant";q=100;w=60`, "ratelimit": `"per-tenant";r=99;t=60`,
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.options.Checker = says(test.allowed, test.verdict)
			got, err := ask(t, newService(test.options), benchRequest())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, headersOf(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A denial has the body that the HTTP side sends, of the form that is set, and nothing
// else has one; nor has it without an Answer, as in envoyproxy/ratelimit.
func TestBodyOfADenial(t *testing.T) {
	for _, form := range []httpanswer.Body{httpanswer.Platform, httpanswer.Flat, httpanswer.Problem} {
		t.Run(form.String(), func(t *testing.T) {
			answer, err := httpanswer.New(httpanswer.Options{Body: form})
			if err != nil {
				t.Fatal(err)
			}
			req := &headgate.Request{Descriptors: []headgate.Descriptor{{}}}
			resp := &headgate.Response{Verdicts: []headgate.Verdict{denied()}}
			summary := answer.Summarize(resp)
			got, err := ask(t, newService(Options{Answer: answer, Checker: says(false, denied())}), benchRequest())
			if err != nil {
				t.Fatal(err)
			}
			if want := answer.AppendBody(nil, req, resp, &summary); !strings.HasPrefix(string(got.RawBody), string(want[:60])) || !json.Valid(got.RawBody) {
				t.Errorf("body %s, want one like %s", got.RawBody, want)
			}
			if kind := headersOf(got)["content-type"]; kind != httpanswer.MediaType(form) {
				t.Errorf("content-type %q", kind)
			}
			for name, quiet := range map[string]*service{
				"allowed":  newService(Options{Answer: answer, Checker: says(true, allowedVerdict())}),
				"as Envoy": newService(Options{Headers: envoyHeaders, Checker: says(false, denied())}),
				"plain":    newService(Options{Checker: says(false, denied())}),
			} {
				if got, err := ask(t, quiet, benchRequest()); err != nil || got.RawBody != nil || headersOf(got)["content-type"] != "" {
					t.Errorf("%s: body %q, %v, error %v", name, got.GetRawBody(), headersOf(got), err)
				}
			}
		})
	}
}

func TestNoHeadersWhereNothingLimits(t *testing.T) {
	got, err := ask(t, newService(Options{Checker: allow, Headers: envoyHeaders}), benchRequest())
	if err != nil || len(got.ResponseHeadersToAdd) != 0 {
		t.Errorf("headers %v, error %v", got.GetResponseHeadersToAdd(), err)
	}
}

func TestDynamicMetadata(t *testing.T) {
	first := &rules.Rule{Metadata: map[string]any{
		"team": "core", "nested": map[string]any{"a": 1, "list": []any{true, nil, "x"}},
	}}
	second := &rules.Rule{Metadata: map[string]any{
		"team": "other", "nested": map[string]any{"a": 2, "b": 2.5}, "deep": map[string]any{"c": "d"},
	}}
	overRule := &rules.Rule{Metadata: map[string]any{"never": "told"}}
	verdict := func(v headgate.Verdict, i int, r *rules.Rule) headgate.Verdict {
		v.Descriptor, v.Rule = i, r
		return v
	}
	s := newService(Options{DynamicMetadata: true, Checker: says(false,
		verdict(allowedVerdict(), 0, first),
		verdict(allowedVerdict(), 1, second),
		verdict(denied(), 2, overRule),
	)})
	limited := withHits(entries("b", "2", "c", ""), 4)
	limited.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 42, Unit: typev3.RateLimitUnit_MINUTE}
	req := request("edge", entries("a", "1"), limited, entries("d", "3"))
	req.HitsAddend = 3
	got, err := ask(t, s, req)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"domain": "edge", "hitsAddend": 3.0,
		"descriptors": []any{
			map[string]any{"entries": []any{"a=1"}},
			map[string]any{"entries": []any{"b=2", "c="}, "hitsAddend": 4.0, "limit": "requests_per_unit:42 unit:MINUTE"},
			map[string]any{"entries": []any{"d=3"}},
		},
		"metadata": map[string]any{
			"team":   "core",
			"nested": map[string]any{"a": 1.0, "b": 2.5, "list": []any{true, nil, "x"}},
			"deep":   map[string]any{"c": "d"},
		},
	}
	if diff := cmp.Diff(want, got.DynamicMetadata.AsMap()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, grown := first.Metadata["deep"]; grown || len(first.Metadata["nested"].(map[string]any)) != 2 {
		t.Errorf("the rule's own metadata was changed: %v", first.Metadata)
	}
}
