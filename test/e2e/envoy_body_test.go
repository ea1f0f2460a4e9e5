package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// Envoy passes on the body of a denial and its media type, by the form that is set, and the
// sentence of a rule with what the request was for, escaped, but for the API key.
func TestEnvoyAnswersWithABody(t *testing.T) { overEach(t, testEnvoyAnswersWithABody) }

func testEnvoyAnswersWithABody(t *testing.T, transport string) {
	e := startEdge(t, transport, "--rls-headers=http", "--body=problem")
	const quoted = `al"ice`
	for range 5 {
		if resp, body := e.read("/orders/1", quoted); resp.StatusCode != http.StatusOK || body != "backend /orders/1\n" || strings.Contains(resp.Header.Get("content-type"), "json") {
			t.Fatalf("an allowed request: %s, %q, %v", resp.Status, body, resp.Header)
		}
	}
	resp, body := e.read("/orders/1", quoted)
	var problem struct {
		Type   string
		Status int
		Detail string
	}
	if err := json.Unmarshal([]byte(body), &problem); err != nil || problem.Status != http.StatusTooManyRequests || !strings.HasPrefix(problem.Detail, "Rate limit exceeded.") {
		t.Errorf("body %q: %+v, error %v", body, problem, err)
	}
	if kinds := resp.Header.Values("content-type"); resp.StatusCode != http.StatusTooManyRequests || len(kinds) != 1 || kinds[0] != "application/problem+json" {
		t.Errorf("%s, content-type %q", resp.Status, kinds)
	}

	text := readFile(t, filepath.Join(exampleDir, "rules.yaml"))
	own := `        answer: {body: flat, message: "'{rule}' on \"{route}\": {key}, {limit} per {window}"}` + "\n"
	e.writeRules(strings.Replace(text, "        tenant: true\n", "        tenant: true\n"+own, 1))
	var flat struct{ Error, Message string }
	e.eventually("the sentence of the rule", func() bool {
		resp, body = e.read("/orders/1", quoted)
		return resp.StatusCode == http.StatusTooManyRequests && json.Unmarshal([]byte(body), &flat) == nil && flat.Error != ""
	})
	const start, end = `'orders-per-key' on "orders": route:orders, api_key:hidden:`, `, 5 per 1m`
	if !strings.HasPrefix(flat.Message, start) || !strings.HasSuffix(flat.Message, end) || strings.Contains(flat.Message, "ice") {
		t.Errorf("message %q, want %q ... %q without the key, in %q", flat.Message, start, end, body)
	}
}

// read is get with the body.
func (e *edge) read(path, apiKey string) (*http.Response, string) {
	e.t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+e.envoy.Listener("edge")+path, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("x-api-key", apiKey)
	resp, err := e.client.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return resp, string(body)
}
