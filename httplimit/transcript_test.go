package httplimit_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// twoLimits are the limits of the transcripts: the third request of a minute is
// denied by the second.
func twoLimits() []rules.NamedLimit {
	return []rules.NamedLimit{
		{Limit: limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 100, Period: time.Hour})},
		{Limit: limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 2, Period: time.Minute}), Name: "burst"},
	}
}

// TestTranscripts compares a dialogue of three requests, the last one denied,
// with testdata; run it with -update to rewrite them after a look at the
// difference.
func TestTranscripts(t *testing.T) {
	down := failing{fmt.Errorf("connection refused")}
	cases := []struct {
		name    string
		checker httplimit.Checker // nil: a limiter
		options httplimit.Options
		method  string
	}{
		{name: "draft-8"},
		{name: "draft-8-delta-problem", options: httplimit.Options{Answer: httplimit.Answer{Reset: httplimit.DeltaSeconds, Body: httplimit.Problem}}},
		{name: "draft-7", options: httplimit.Options{Answer: httplimit.Answer{Generation: httplimit.Draft7, OmitX: true}}},
		{name: "draft-6-flat", options: httplimit.Options{Answer: httplimit.Answer{Generation: httplimit.Draft6, OmitX: true, Body: httplimit.Flat}}},
		{name: "x-only", options: httplimit.Options{Answer: httplimit.Answer{Generation: httplimit.NoDraft}}},
		{name: "head", method: http.MethodHead},
		{name: "unavailable", checker: down, options: httplimit.Options{FailClosed: true}},
		{name: "unavailable-problem", checker: down, options: httplimit.Options{FailClosed: true, Answer: httplimit.Answer{Body: httplimit.Problem}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.checker == nil {
				c.checker = newLimiter(t, "")
			}
			if c.method == "" {
				c.method = http.MethodGet
			}
			c.options.Limits, c.options.Answer.Jitter = twoLimits(), httplimit.ExactRetry
			h := newMiddleware(t, c.checker, c.options).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNoContent)
			}))
			var got strings.Builder
			for range 3 {
				r := ask(h, newRequest(c.method, "/orders"))
				parseBack(t, r.Header)
				writeTranscript(t, &got, r)
			}
			compare(t, filepath.Join("testdata", c.name+".txt"), got.String())
		})
	}
}

// writeTranscript appends an answer as it stands on the wire, but sorted.
func writeTranscript(t *testing.T, w *strings.Builder, r *http.Response) {
	fmt.Fprintf(w, "HTTP/1.1 %s\n", r.Status)
	var lines []string
	for name, values := range r.Header {
		for _, v := range values {
			lines = append(lines, name+": "+v+"\n")
		}
	}
	slices.Sort(lines)
	w.WriteString(strings.Join(lines, ""))
	w.WriteString("\n" + body(t, r) + "\n")
}

// parseBack reads the structured fields with a library that knows nothing of
// ours, and writes them as that would: there is one way.
func parseBack(t *testing.T, h http.Header) {
	t.Helper()
	for _, name := range []string{"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
		lines := h.Values(name)
		if len(lines) == 0 {
			continue
		}
		if len(lines) > 1 {
			t.Errorf("%s stands in %d lines", name, len(lines))
		}
		list, listErr := httpsfv.UnmarshalList(lines)
		dictionary, dictionaryErr := httpsfv.UnmarshalDictionary(lines)
		var value httpsfv.StructuredFieldValue = list
		if strings.Contains(lines[0], "limit=") {
			if dictionaryErr != nil {
				t.Errorf("%s: %q is no dictionary: %v", name, lines[0], dictionaryErr)
				continue
			}
			value = dictionary
		} else if listErr != nil {
			t.Errorf("%s: %q is no list: %v", name, lines[0], listErr)
			continue
		}
		if again, err := httpsfv.Marshal(value); err != nil || again != lines[0] {
			t.Errorf("%s: %q is written %q by others (%v)", name, lines[0], again, err)
		}
	}
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
