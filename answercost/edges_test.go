package answercost_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/answercost"
)

// TestSeveralCeilings: of several ceilings the highest bounds the estimate, wherever it stands.
func TestSeveralCeilings(t *testing.T) {
	s := newShape(t, answercost.OpenAI())
	for _, body := range []string{`{"max_tokens":300,"max_completion_tokens":200}`, `{"max_completion_tokens":200,"max_tokens":300}`} {
		if got := s.Ask([]byte(body)).Estimate[1]; got != 300 {
			t.Errorf("%s: estimated %d, want 300", body, got)
		}
	}
}

// TestEventsOfSeveralLines: the data of an event may stand on several lines, however they end.
func TestEventsOfSeveralLines(t *testing.T) {
	s := newShape(t, answercost.OpenAI())
	lines := []string{"data: {\"usage\":", "data: {\"prompt_tokens\": 19,", "data: \"completion_tokens\": 10}}", "", "data: [DONE]", "", ""}
	for _, end := range []string{"\n", "\r", "\r\n"} {
		body := strings.Join(lines, end)
		for _, step := range []int{len(body), 1} {
			var parts [][]byte
			for part := range slices.Chunk([]byte(body), step) {
				parts = append(parts, part)
			}
			used := read(s, answercost.Asked{Bytes: 400}, header(asEvents, ""), parts...)
			if !slices.Equal(used.Counts, []int64{19, 10}) || used.Guessed {
				t.Errorf("lines that end in %q, %d bytes at a time: %+v", end, step, used)
			}
		}
	}
}
