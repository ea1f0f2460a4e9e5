package overload

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParsePriority(t *testing.T) {
	for word, want := range map[string]Priority{"p0": P0, "P1": P1, " p2 ": P2, "p3": P3, "critical": P0, "Critical": P0, "TEST": P3} {
		if got, err := ParsePriority(word); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", word, got, err, want)
		}
	}
	for _, word := range []string{"", "p4", "0", "high", "p0 p1", strings.Repeat("x", 1<<20)} {
		if got, err := ParsePriority(word); err == nil {
			t.Errorf("%.20q is %v", word, got)
		} else if len(err.Error()) > 200 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
	for p := P0; p <= P3; p++ {
		if got, err := ParsePriority(p.String()); got != p || err != nil {
			t.Errorf("%v comes back as %v, %v", p, got, err)
		}
	}
	if got := Priority(200).String(); got != "P3" {
		t.Errorf("Priority(200) is %s", got)
	}
}

// TestClassifier (J5) is who gets which priority.
func TestClassifier(t *testing.T) {
	c, err := NewClassifier(ClassifierOptions{
		Paths: []PathPriority{
			{"POST", "/v1/charges", P0},
			{"", "/v1/charges/{id}/receipts", P3},
			{"", "/health/", P0},
			{"GET", "/v1/orders/{id}", P1},
			{"", "/v1/", P2},
		},
		Methods: map[string]Priority{"PROPFIND": P3},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		asked Asked
		want  Priority
	}{
		{Asked{}, P2},
		{Asked{Method: "GET", Path: "/"}, P2},
		{Asked{Method: "HEAD", Path: "/x"}, P2},
		{Asked{Method: "POST", Path: "/x"}, P1},
		{Asked{Method: "PUT"}, P1}, {Asked{Method: "PATCH"}, P1}, {Asked{Method: "DELETE"}, P1}, {Asked{Method: "OPTIONS"}, P1},
		{Asked{Method: "BREW"}, P2}, {Asked{Method: "PROPFIND"}, P3},
		{Asked{Method: "POST", Path: "/v1/charges"}, P0},
		{Asked{Method: "POST", Path: "/v1/charges/"}, P2},
		{Asked{Method: "GET", Path: "/v1/charges"}, P2},
		{Asked{Method: "POST", Path: "/v1/chargesx"}, P2},
		{Asked{Method: "GET", Path: "/v1/charges/7/receipts"}, P3},
		{Asked{Method: "GET", Path: "/v1/orders/7"}, P1},
		{Asked{Method: "GET", Path: "/v1/orders/{id}"}, P1},
		{Asked{Method: "GET", Path: "/v1/orders/7/lines"}, P2},
		{Asked{Method: "GET", Path: "/health"}, P0},
		{Asked{Method: "GET", Path: "/health/deep/er"}, P0},
		{Asked{Method: "GET", Path: "/healthy"}, P2},
		// Paths that are not what they look like get no pattern's priority.
		{Asked{Method: "GET", Path: "/health/../v2/x"}, P2},
		{Asked{Method: "GET", Path: "/health//x"}, P2},
		{Asked{Method: "GET", Path: "//health"}, P2},
		{Asked{Method: "GET", Path: "/health/."}, P2},
		{Asked{Method: "GET", Path: "health/"}, P2},
		// The header lowers what it likes and raises where it is trusted.
		{Asked{Method: "POST", Path: "/x", Header: "p0"}, P1},
		{Asked{Method: "POST", Path: "/x", Header: "test"}, P3},
		{Asked{Method: "POST", Path: "/x", Header: "critical", Trusted: true}, P0},
		{Asked{Method: "POST", Path: "/v1/charges", Header: "p2", Trusted: true}, P2},
		{Asked{Method: "POST", Path: "/x", Header: "urgent!!", Trusted: true}, P1},
		// A rule speaks before path and method, and a header cannot raise it.
		{Asked{Method: "POST", Path: "/v1/charges", Rule: "p3"}, P3},
		{Asked{Method: "GET", Path: "/x", Rule: "critical"}, P0},
		{Asked{Method: "GET", Path: "/x", Rule: "critical", Header: "test"}, P3},
		{Asked{Method: "GET", Path: "/x", Rule: "p2", Header: "p0", Trusted: true}, P2},
		{Asked{Method: "POST", Path: "/x", Rule: "no such"}, P1},
	} {
		if got := c.Priority(tc.asked); got != tc.want {
			t.Errorf("%+v: %v, want %v", tc.asked, got, tc.want)
		}
	}
	var zero Classifier
	if got := zero.Priority(Asked{Method: "POST"}); got != P1 {
		t.Errorf("the zero classifier: %v", got)
	}
}

// TestClassifierRefuses holds that patterns which match nothing, and too many,
// are refused.
func TestClassifierRefuses(t *testing.T) {
	for _, pattern := range []string{"", "v1", "//", "/a//b", "/a/../b", "/.", "/a{b}", "/{a}b", "/x/{y"} {
		if _, err := NewClassifier(ClassifierOptions{Paths: []PathPriority{{Pattern: pattern}}}); err == nil {
			t.Errorf("pattern %q is accepted", pattern)
		}
	}
	for _, method := range []string{"get", "Post", ""} {
		if _, err := NewClassifier(ClassifierOptions{Methods: map[string]Priority{method: P3}}); err == nil {
			t.Errorf("method %q is accepted", method)
		}
		if _, err := NewClassifier(ClassifierOptions{Paths: []PathPriority{{Method: method, Pattern: "/"}}}); (err == nil) != (method == "") {
			t.Errorf("a path with method %q: %v", method, err)
		}
	}
	if _, err := NewClassifier(ClassifierOptions{Paths: make([]PathPriority, MaxPaths+1)}); err == nil {
		t.Error("too many patterns are accepted")
	}
	if _, err := NewClassifier(ClassifierOptions{Paths: []PathPriority{{Pattern: "/"}}}); err != nil {
		t.Error(err)
	}
}

// TestUntrustedHeaderNeverRaises holds that for any request.
func TestUntrustedHeaderNeverRaises(t *testing.T) {
	c, err := NewClassifier(ClassifierOptions{Paths: []PathPriority{{"", "/a/", P0}, {"", "/b/{x}", P3}}})
	if err != nil {
		t.Fatal(err)
	}
	words := rapid.OneOf(rapid.SampledFrom([]string{"", "p0", "p1", "p2", "p3", "critical", "test"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		a := Asked{
			Method: rapid.SampledFrom([]string{"", "GET", "POST", "X"}).Draw(t, "method"),
			Path:   rapid.StringMatching(`(/(a|b|\.\.|\.)?){0,4}`).Draw(t, "path"),
			Rule:   words.Draw(t, "rule"),
		}
		without := c.Priority(a)
		a.Header = words.Draw(t, "header")
		if with := c.Priority(a); with < without || with > P3 {
			t.Fatalf("%+v: %v, %v without the header", a, with, without)
		}
	})
}

func TestDecision(t *testing.T) {
	var zero Decision
	if !zero.Admitted() || zero.RetryAfterSeconds() != 0 {
		t.Errorf("the zero decision: %v, %d", zero.Admitted(), zero.RetryAfterSeconds())
	}
	for d, want := range map[time.Duration]int64{0: 1, 1: 1, time.Second: 1, time.Second + 1: 2, 90 * time.Second: 90} {
		if got := (Decision{Reason: FleetShare, RetryAfter: d}).RetryAfterSeconds(); got != want {
			t.Errorf("%v: %d s, want %d", d, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(maxRetryAfter)).Draw(t, "d"))
		if got := jittered(d, rapid.Float64Range(0, 0.999999).Draw(t, "draw")); got < d || got > 3*d {
			t.Fatalf("%v is jittered to %v", d, got)
		}
	})
	words := map[string]bool{}
	for r := Admitted; r <= HardCap; r++ {
		words[r.String()] = true
	}
	if len(words) != 4 {
		t.Errorf("reasons %v", words)
	}
}

func BenchmarkClassifier(b *testing.B) {
	var o ClassifierOptions
	for i := range 20 {
		o.Paths = append(o.Paths, PathPriority{Pattern: fmt.Sprintf("/v1/things%d/{id}", i), Priority: P1})
	}
	c, err := NewClassifier(o)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.Priority(Asked{Method: "GET", Path: "/v1/things19/12345", Header: "p2"})
	}
}
