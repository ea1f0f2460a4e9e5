package costfile

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/answercost"
)

func TestLoad(t *testing.T) {
	o, err := Load("anthropic")
	if err != nil || !o.Shape.Has("cache_read") || o.Applies != nil {
		t.Errorf("%+v, %v", o, err)
	}
	file := filepath.Join(t.TempDir(), "costs.yaml")
	if err := os.WriteFile(file, []byte("shape: openai\nweights: {input: 0.5, output: 4}\nbudgets: [total, output]\nmodels: [a, b]\npaths: [/v1/chat/completions, /v2/]\nmax_estimate: 500\nttl: 1m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if o, err = Load(file); err != nil {
		t.Fatal(err)
	}
	if got := o.Shape.Cost(answercost.Total, []int64{10, 20}); got != 85 {
		t.Errorf("costs %d, want 85", got)
	}
	if got := o.Shape.Estimated("output", o.Shape.Ask(nil)); got != 500 || o.TTL != time.Minute || len(o.Budgets) != 2 || len(o.Models) != 2 {
		t.Errorf("%d, %+v", got, o)
	}
	for target, want := range map[string]bool{
		"/v1/chat/completions": true, "/v1//chat/completions": true, "/v1/x/../chat/completions": true, "/v1/chat/completions/": true,
		"/v1/models": false, "/v2/anything": true, "/v2": true, "/": false,
	} {
		r := httptest.NewRequest(http.MethodPost, "http://h"+target, strings.NewReader("{}"))
		if got := o.Applies(r); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
	if o.Applies(httptest.NewRequest(http.MethodGet, "/v2/x", nil)) {
		t.Error("a request without a body costs something")
	}
}

func TestCountsOfOnesOwn(t *testing.T) {
	o, err := parse([]byte("counts:\n  - {name: out, paths: [meta.generated], fold: sum, usual: 7, ceiling: [n], text: [t]}\n  - {name: in, paths: [meta.read], of_request: true}\nweights: {in: 0}\nmodel: engine\n"))
	if err != nil {
		t.Fatal(err)
	}
	asked := o.Shape.Ask([]byte(`{"engine":"e"}`))
	if asked.Model != "e" || o.Shape.Estimated("total", asked) != 7 || o.Shape.Estimated("in", asked) != 4 {
		t.Errorf("%+v", asked)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                           "empty; hint: shape: openai",
		"budgets: [total]":                           "shape and counts: neither",
		"shape: openia":                              `did you mean "openai"?`,
		"shap: openai":                               `line 1`,
		"shape: openai\nweights: {x: 1}":             `no count "x"`,
		"shape: openai\nweights: {input: -1}":        "out of range",
		"shape: openai\nweights: {input: .nan}":      "out of range",
		"shape: openai\nweights: {input: 1e-9}":      "out of range",
		"shape: openai\npaths: [v1]":                 "without a slash",
		"shape: openai\nmax_estimate: -1":            "largest estimate",
		"counts: [{name: a, paths: [b], fold: sun}]": `did you mean "sum"?`,
		"counts: [{name: a}]":                        "no paths",
	} {
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "absent.yaml")); err == nil || !strings.Contains(err.Error(), "one of anthropic, openai") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("shape: openai\nweights: {output: 4}\n")
	f.Add("counts: [{name: a, paths: [b.*.0], fold: sum}]")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = parse([]byte(text)) })
}
