package h2

import (
	"os"
	"regexp"
	"testing"
)

// TestEventsAreDocumented: the page on metrics names each event.
func TestEventsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `headgate_grpc_h2_events_total` .*$").Find(page)
	for _, name := range eventNames {
		if !regexp.MustCompile(`\b` + name + `\b`).Match(row) {
			t.Errorf("docs/metrics.md does not name the event %s", name)
		}
	}
}
