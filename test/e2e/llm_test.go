package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const llmDir = "../../examples/llm-budgets"

// models answers as a server of language models does, by what the request asks for.
func models(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	asked := string(body)
	tokens := 50
	if strings.Contains(asked, "at length") {
		tokens = 60_000
	}
	if !strings.Contains(asked, `"stream":true`) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"chat.completion","choices":[{"message":{"content":"Hello"}}],"usage":{"prompt_tokens":10,"completion_tokens":%d}}`, tokens)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"Hello, how are you?!\"}}],\"usage\":null}\n\n")
	_ = http.NewResponseController(w).Flush()
	if strings.Contains(asked, "break off") {
		panic(http.ErrAbortHandler)
	}
	fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", tokens)
}

// chat asks a model and returns the status, the answer as far as it came, and what is left of
// the tightest limit.
func (p *proxyProcess) chat(customer, body string) (code int, answer, left string) {
	p.t.Helper()
	r, err := http.NewRequest(http.MethodPost, "http://"+p.addr+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+customer)
	res, err := p.client.Do(r)
	if err != nil {
		p.t.Fatalf("%v\n%s", err, p.Output())
	}
	defer res.Body.Close()
	got, _ := io.ReadAll(res.Body) // a stream may be broken off
	return res.StatusCode, string(got), res.Header.Get("X-RateLimit-Remaining")
}

// F10: budgets in tokens per customer, model and day before a server of models: what answers
// used is charged, and not what was estimated.
//
//promise:usage-known-later
func TestF10TokensThroughTheProxy(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"costs.yaml", "identity.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(readFile(t, filepath.Join(llmDir, name))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "hash.key"), []byte(strings.Repeat("k", 44)), 0o600); err != nil {
		t.Fatal(err)
	}
	// A year in place of a day and a minute, so that no window ends and nothing comes back.
	rules := readFile(t, filepath.Join(llmDir, "rules.yaml"))
	for _, window := range []string{"unit: day", "unit: minute"} {
		if !strings.Contains(rules, window) {
			t.Fatalf("no %q", window)
		}
		rules = strings.ReplaceAll(rules, window, "window: 365d")
	}
	p := startProxy(t, http.HandlerFunc(models), rules, "--costs", filepath.Join(dir, "costs.yaml"), "--identity", filepath.Join(dir, "identity.yaml"))
	const large, stream = `{"model":"large","max_tokens":200,"messages":[]}`, `{"model":"large","max_tokens":200,"stream":true}`
	// Of 20,000 tokens of output 200 are reserved each time.
	for i, tt := range []struct {
		body, in string
		used     int
	}{{large, `"content":"Hello"`, 50}, {stream, "[DONE]", 50}, {strings.Replace(stream, "true", `true,"x":"break off"`, 1), "how are you", 5}} {
		code, answer, _ := p.chat("alice", tt.body)
		if code != http.StatusOK || !strings.Contains(answer, tt.in) {
			t.Fatalf("%d: %d %s\n%s", i, code, answer, p.Output())
		}
	}
	code, answer, left := p.chat("alice", large)
	if code != http.StatusOK || left != fmt.Sprint(20_000-50-50-5-200) {
		t.Errorf("%d, left %s: %s", code, left, answer)
	}
	// An answer far beyond its estimate: 4 x 60,000 are more than the day has for the model.
	if code, answer, _ := p.chat("bob", strings.Replace(large, "[]", `"at length"`, 1)); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	// The fields of a denial are those of the budget.
	if code, answer, left := p.chat("bob", large); code != http.StatusTooManyRequests || left != "0" {
		t.Errorf("bob owes: %d, left %s: %s", code, left, answer)
	}
	if code, answer, _ := p.chat("dave", large); code != http.StatusOK {
		t.Errorf("another customer: %d %s", code, answer)
	}
	// A client without a key, or with one that it invented, has the budgets of its address.
	if res, err := p.client.Post("http://"+p.addr+"/v1/chat/completions", "application/json", strings.NewReader(large)); err != nil {
		t.Error(err)
	} else {
		res.Body.Close()
		if policies := res.Header.Get("RateLimit-Policy"); !strings.Contains(policies, `"day-address"`) || !strings.Contains(policies, `"output-address"`) {
			t.Errorf("without a key the limits are %s", policies)
		}
	}
	// What lists models costs nothing, whoever owes.
	if res, err := p.client.Get("http://" + p.addr + "/v1/models"); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", res, err)
	} else {
		res.Body.Close()
	}
	if out := p.Output(); strings.Contains(out, "alice") || strings.Contains(out, "at length") {
		t.Errorf("keys or questions are in the log:\n%s", out)
	}
}
