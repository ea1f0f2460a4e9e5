package otlp

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"
)

func TestEndpoints(t *testing.T) {
	for _, tt := range []struct{ raw, want string }{
		{"http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"},
		{"http://[::1]:4318/", "http://[::1]:4318/v1/traces"},
		{"https://collector.example", "https://collector.example/v1/traces"},
		{"https://collector.example/otlp/v1/traces", "https://collector.example/otlp/v1/traces"},
		{"https://user:password@collector.example", "https://collector.example/v1/traces Basic dXNlcjpwYXNzd29yZA=="},
	} {
		to, err := ParseEndpoint(tt.raw, TracesPath)
		if err != nil {
			t.Errorf("%s: %v", tt.raw, err)
			continue
		}
		if got := strings.TrimSpace(fmt.Sprint(to.URL(), " ", to.Header()["Authorization"])); got != tt.want {
			t.Errorf("%s: %s", tt.raw, got)
		}
	}
	for _, raw := range []string{"", "collector:4318", "grpc://secret@c", "http://", "http://:4318", "http://user:secret%zz@c", "http://user:secret@c/?secret=1", "http://c/#secret", "http://secret\x00"} {
		if to, err := ParseEndpoint(raw, TracesPath); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "; hint: http://host:4318") {
			t.Errorf("%q: %v, %v", raw, to, err)
		}
	}
}

// TestErrorsTellNoSecret: neither a password nor the value of a header field is told, in whatever
// form an answer has it, nor more than a bit of the answer.
func TestErrorsTellNoSecret(t *testing.T) {
	to, err := ParseEndpoint("http://us%40er:s3cret%2Fpass@c", TracesPath)
	if err != nil {
		t.Fatal(err)
	}
	to.AddHeader(map[string]string{"x-api-key": "hunter 2", "authorization": "Bearer mine"})
	if got := to.Header(); got["X-Api-Key"] != "hunter 2" || !strings.HasPrefix(got["Authorization"], "Basic ") {
		t.Errorf("%v", got)
	}
	told := to.Told(errors.New("401: " + to.Header()["Authorization"] + " s3cret/pass s3cret%2Fpass hunter 2 hunter+2 hunter%202" + strings.Repeat("é", 4000))).Error()
	if strings.Contains(told, "s3cret") || strings.Contains(told, "dXNAZX") || strings.Contains(told, "hunter") || !strings.HasPrefix(told, "401: ") || len(told) > MaxError+8 || !utf8.ValidString(told) {
		t.Error(told)
	}
}

// TestErrorsAreCutBetweenLetters: wherever the bound falls, what is told is text.
func TestErrorsAreCutBetweenLetters(t *testing.T) {
	to, err := ParseEndpoint("http://c", TracesPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []string{"", "x"} {
		if told := to.Told(errors.New(before + strings.Repeat("é", MaxError))).Error(); !utf8.ValidString(told) || len(told) > MaxError+len("…") || !strings.HasSuffix(told, "é…") {
			t.Errorf("%q", told)
		}
	}
}

// TestShortestSecret: a value of so many bytes may be a secret, and a shorter one stands in much
// that is none.
func TestShortestSecret(t *testing.T) {
	to, err := ParseEndpoint("http://c", TracesPath)
	if err != nil {
		t.Fatal(err)
	}
	to.AddHeader(map[string]string{"api-key": "abcdef", "tenant": "12345"})
	if told := to.Told(errors.New("refused abcdef of 12345")).Error(); told != "refused (hidden) of 12345" {
		t.Error(told)
	}
}

// TestGoesNowhereElse: a collector that sends its callers elsewhere gets no passwords sent there.
func TestGoesNowhereElse(t *testing.T) {
	asked := atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	to, err := ParseEndpoint(server.URL, MetricsPath)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Client.CloseIdleConnections()
	answer, err := to.Client.Get(to.URL())
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusTemporaryRedirect || asked.Load() != 1 {
		t.Errorf("status %d after %d requests", answer.StatusCode, asked.Load())
	}
}

func FuzzEndpoint(f *testing.F) {
	for _, raw := range []string{"http://127.0.0.1:4318", "https://u:p@c/x", "http://[::1]%zz", "http://c?x"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		to, err := ParseEndpoint(raw, MetricsPath)
		if err != nil {
			return
		}
		if to.host == "" || !strings.HasPrefix(to.path, "/") {
			t.Errorf("%q: %+v", raw, to)
		}
	})
}
