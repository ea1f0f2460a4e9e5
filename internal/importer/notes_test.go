package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/rules/rulefile"
)

// TestNotesAreBounded: of notes beyond the bound their number is told, from the first one on.
func TestNotesAreBounded(t *testing.T) {
	for beyond, want := range []string{"", "1 more things are not carried over", "2 more things are not carried over"} {
		var b strings.Builder
		b.WriteString("limit_req_zone $remote_addr zone=a:1m rate=1r/s;\nlimit_req zone=a;\n")
		for i := range maxNotes + beyond {
			fmt.Fprintf(&b, "limit_rate %d;\n", i)
		}
		result, err := Import(Nginx, rulefile.File{Name: "f", Data: []byte(b.String())}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if first := result.Notes[0]; first.Line == 0 {
			got = first.Why
		}
		if got != want {
			t.Errorf("%d notes beyond the bound: %q, want %q", beyond, got, want)
		}
	}
}

// TestWhole: what has its place in another setting does not make an import incomplete.
func TestWhole(t *testing.T) {
	for text, want := range map[string]bool{
		`{"limit": 5}`: true, `{"limit": 5, "statusCode": 403}`: true, `{"limit": 5, "skipFailedRequests": true}`: false,
	} {
		result, err := Import(Express, rulefile.File{Name: "f", Data: []byte(text)}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Whole(); got != want {
			t.Errorf("%s: whole is %t", text, got)
		}
	}
}

// TestCommentText: nothing of a source ends the comment that tells of it.
func TestCommentText(t *testing.T) {
	const text = "a\nb\rc\td\u0085e\u2028f\u2029g\x00h\ufeffi"
	if got := commentText(text); got != "a?b?c?d?e?f?g?h?i" {
		t.Errorf("%q", got)
	}
}

// TestNginxDelay: a queue is long enough for all of its burst, so its delay is rounded up.
func TestNginxDelay(t *testing.T) {
	c := told{
		text:  "limit_req_zone $remote_addr zone=a:1m rate=7r/s;\nlimit_req zone=a burst=3;\n",
		notes: []string{"2 elsewhere=true limit_req zone=a burst=3: leaky_queue"},
		rules: []string{"max_delay: \"428572us\", max_queue: 3"},
	}
	c.check(t, Nginx)
}

// TestExpressWindow: a window is no longer than timers of its runtime can wait for.
func TestExpressWindow(t *testing.T) {
	c := told{text: `{"windowMs": 2147483647}`, rules: []string{`window: "2147483647ms"`}}
	c.check(t, Express)
	for _, ms := range []string{"2147483648", "0", "-1"} {
		if _, err := Import(Express, rulefile.File{Name: "f", Data: []byte(`{"windowMs": ` + ms + `}`)}, Options{}); err == nil {
			t.Errorf("a window of %s ms is taken", ms)
		}
	}
}
