//go:build !race

// The race detector empties pools at random, so allocations are counted
// without it.

package httpcheck

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/limit"
)

// quiet is a ResponseWriter that keeps nothing.
type quiet struct{ header http.Header }

func (w quiet) Header() http.Header         { return w.header }
func (w quiet) WriteHeader(int)             {}
func (w quiet) Write(p []byte) (int, error) { return len(p), nil }

// rewound is a body that is read again and again.
type rewound struct{ *strings.Reader }

// Close implements io.Closer.
func (r rewound) Close() error { return nil }

// steady answers every check alike, in the memory that it gets.
func steady() checkFunc {
	l := limit.Must(limit.PerMinute(100))
	return func(_ []headgate.Request, responses []headgate.Response) error {
		for i := range responses {
			responses[i] = headgate.Response{Allowed: true, DomainKnown: true, Verdicts: append(responses[i].Verdicts[:0], headgate.Verdict{
				Limit: l, Hits: 1, Decision: limit.Decision{Allowed: true, Limit: 100, Remaining: 99, ResetAfter: time.Minute},
			})}
		}
		return nil
	}
}

const oneCheck = `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"42"}]}]}`

// again returns a function that has h answer the same body anew. It is what
// net/http makes of a request of common clients.
func again(h http.Handler, body string) func() {
	text := rewound{strings.NewReader(body)}
	r := httptest.NewRequest(http.MethodPost, "/v1/check", text)
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Type", "application/json")
	w := quiet{make(http.Header)}
	return func() {
		_, _ = text.Seek(0, io.SeekStart)
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}

// TestAllocations: a check is the text of its body, and the values of its header fields with
// their text, and nothing else.
func TestAllocations(t *testing.T) {
	h := newHandler(t, Options{Checker: steady()})
	if n := alloctest.PerRun(200, again(h, oneCheck)); n > 2 {
		t.Errorf("a check is %v allocations, want 2", n)
	}
}

func BenchmarkHandler(b *testing.B) {
	many := `{"checks":[` + strings.Repeat(oneCheck+",", 15) + oneCheck + "]}"
	for name, body := range map[string]string{"one": oneCheck, "batch of 16": many} {
		b.Run(name, func(b *testing.B) {
			ask := again(newHandler(b, Options{Checker: steady()}), body)
			b.ReportAllocs()
			for b.Loop() {
				ask()
			}
		})
	}
}
