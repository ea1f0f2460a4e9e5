package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// asks asks a model behind Envoy and returns the status.
func (e *edge) asks(customer, model, body string) int {
	e.t.Helper()
	r, err := http.NewRequest(http.MethodPost, "http://"+e.envoy.Listener("edge")+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	r.Header.Set("x-api-key", customer)
	r.Header.Set("x-model", model)
	res, err := e.client.Do(r)
	if err != nil {
		e.t.Fatalf("%v\nenvoy: %s", err, e.envoy.Output())
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body) // a stream may be broken off
	return res.StatusCode
}

// F10: Envoy charges the tokens that an answer tells when the stream is done, whether they
// fit or not, by customer and model; who has used up a budget is not let in.
func TestF10EnvoyChargesTokens(t *testing.T) {
	e, httpAddr := startExample(t, "../../examples/envoy-llm", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) == "json" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":50,"total_tokens":60}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, part := range []string{"data: {\"choices\":[]}\n\n", "data: {\"usage\":{\"total_tok", "ens\":2500", "00}}\n\ndata: [DONE]\n\n"} {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	left := func(descriptor string, want int64) {
		t.Helper()
		e.eventually("what is left of "+descriptor, func() bool { return e.leftIn(httpAddr, "llm", descriptor) == want })
	}
	if code := e.asks("alice", "small", "json"); code != http.StatusOK {
		t.Fatal(code)
	}
	left("tokens:total,api_key:alice", 1_000_000-60)
	if code := e.asks("alice", "large", "stream"); code != http.StatusOK {
		t.Fatal(code)
	}
	// More than the model had left, and charged all the same.
	left("tokens:total,api_key:alice", 1_000_000-60-250_000)
	left("tokens:total,api_key:alice,model:large", 0)
	for range 2 {
		if code := e.asks("alice", "large", "json"); code != http.StatusTooManyRequests {
			t.Errorf("the budget of the model is used up: %d", code)
		}
	}
	if code := e.asks("alice", "small", "json"); code != http.StatusOK {
		t.Errorf("another model: %d", code)
	}
	left("tokens:total,api_key:alice", 1_000_000-120-250_000)
	if code := e.asks("bob", "large", "json"); code != http.StatusOK {
		t.Errorf("another customer: %d", code)
	}
	left("tokens:total,api_key:bob", 1_000_000-60)
}
