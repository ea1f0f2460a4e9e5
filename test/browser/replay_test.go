package browser

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// The page of a replay of what a server has decided and written opens as a file, is read without
// a network and without a fault, and shows what requests have brought in keys as text.
func TestReplayReport(t *testing.T) {
	t.Parallel()
	events, dir := filepath.Join(t.TempDir(), "events"), t.TempDir()
	s := newStage(t, "--audit-files", "file://"+events+"?compress=none", "--audit-keys", "plain")
	for _, tenant := range []string{"acme", "acme", "acme", "acme", `<img src=x onerror="document.title='run'">`, `<img src=x onerror="document.title='run'">`} {
		s.ask(tenant)
	}
	s.process.Terminate() // what is decided is written

	files, err := filepath.Glob(filepath.Join(events, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: %d files of events", err, len(files))
	}
	candidate := filepath.Join(dir, "candidate.yaml")
	if err := os.WriteFile(candidate, []byte("domain: shop\ndescriptors:\n  - {key: tenant, rate_limit: {unit: year, requests_per_unit: 1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(dir, "report.html")
	s.run(append([]string{"replay", "--rules", candidate, "--html", report, "--events"}, files...)...)
	s.Base, s.File = "null", "file://"+report // the origin of files
	s.play("replay.mjs")
}

// ask sends one request of a tenant.
func (s *stage) ask(tenant string) {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"domain": "shop", "descriptors": []any{map[string]any{"entries": []any{map[string]any{"key": "tenant", "value": tenant}}}}})
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.Post(s.check, "application/json", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTooManyRequests {
		s.t.Fatalf("check: %s", resp.Status)
	}
}
