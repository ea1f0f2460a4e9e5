package costlimit_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/headgate/headgate/answercost"
	"github.com/headgate/headgate/costlimit"
)

// TestRefusedWithoutJSON: a refusal that cannot be read costs nothing either.
func TestRefusedWithoutJSON(t *testing.T) {
	var status int
	c := newChain(t, answercost.OpenAI(), costlimit.Options{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<h1>no</h1>")
	}))
	for _, status = range []int{400, 503} {
		if code, _ := c.ask(question); code != status {
			t.Errorf("%d, want %d", code, status)
		}
		c.hasLeft(aliceTotal, 1000)
	}
	if s := c.costs.Stats(); s.Refused != 2 || s.Unread != 0 {
		t.Errorf("%+v", s)
	}
}

// TestInformationalAnswers: what comes before the answer says nothing of it.
func TestInformationalAnswers(t *testing.T) {
	c := newChain(t, answercost.OpenAI(), costlimit.Options{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"usage":{"prompt_tokens":7,"completion_tokens":20}}`)
	}))
	if code, _ := c.ask(question); code != http.StatusOK {
		t.Fatal(code)
	}
	c.hasLeft(aliceTotal, 1000-27)
	if s := c.costs.Stats(); s.Told != 1 || s.Unread != 0 {
		t.Errorf("%+v", s)
	}
}

// TestAcceptedCodings: the provider is asked for a coding that can be read, and for none that
// the client does not take.
func TestAcceptedCodings(t *testing.T) {
	seen := make(chan []string, 1)
	c := newChain(t, answercost.OpenAI(), costlimit.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header["Accept-Encoding"]
		answering("application/json", `{}`)(w, r)
	}))
	for accepts, want := range map[string]string{
		"": "identity", "br": "identity", "gzip": "gzip", "br, GZIP;q=0.5": "gzip", "gzip;q=0": "identity", "gzip; q=0.0, br": "identity", "gzip;q=1": "gzip",
	} {
		_, _ = c.ask(question, "Accept-Encoding", accepts)
		if got := <-seen; len(got) != 1 || got[0] != want {
			t.Errorf("for %q the provider is asked for %q, want %s", accepts, got, want)
		}
	}
}
