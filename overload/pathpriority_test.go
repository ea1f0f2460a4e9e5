package overload

import (
	"strings"
	"testing"
)

func TestParsePathPriority(t *testing.T) {
	for text, want := range map[string]PathPriority{
		"POST /v1/charges=p0":     {"POST", "/v1/charges", P0},
		" POST  /v1/charges = p0": {"POST", "/v1/charges", P0},
		"/v1/reports/=Test":       {"", "/v1/reports/", P3},
		"/=p1":                    {"", "/", P1},
		"GET /a=b/{id}=critical":  {"GET", "/a=b/{id}", P0},
	} {
		if got, err := ParsePathPriority(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "=", "/v1", "/v1=", "/v1=p4", "=p1", "POST=p1", "post /v1=p1", "v1/orders=p1", "GET POST /v1=p1"} {
		if got, err := ParsePathPriority(text); err == nil || !strings.Contains(err.Error(), "overload: ") {
			t.Errorf("%q: %+v, %v; want an error", text, got, err)
		}
	}
}

// FuzzParsePathPriority: what is accepted has a pattern that begins with a slash,
// and says the same when it is written again.
func FuzzParsePathPriority(f *testing.F) {
	for _, seed := range []string{"POST /v1/charges=p0", "/v1/=test", "=", "A /= = p1", "\x00 /=p1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePathPriority(text)
		if err != nil {
			return
		}
		again, err := ParsePathPriority(p.Method + " " + p.Pattern + "=" + p.Priority.String())
		if p.Method == "" {
			again, err = ParsePathPriority(p.Pattern + "=" + p.Priority.String())
		}
		if err != nil || again != p || p.Pattern[0] != '/' {
			t.Errorf("%q: %+v, again %+v, %v", text, p, again, err)
		}
		// Compiled or refused, but never a panic.
		_, _ = NewClassifier(ClassifierOptions{Paths: []PathPriority{p}})
	})
}
