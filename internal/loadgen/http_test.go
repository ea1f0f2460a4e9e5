package loadgen

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// An answer says what was decided, and whether a rule is for the request; what is no answer of a check decided
// nothing.
func TestAnswersOverHTTP(t *testing.T) {
	for said, want := range map[string]Answer{
		`{"allowed":true,"matched":true}`:                         {Code: "200", Decided: true, Allowed: true},
		`{"allowed":false,"matched":true}`:                        {Code: "200", Decided: true},
		`{"allowed":true,"matched":false}`:                        {Code: "200", Decided: true, Allowed: true, Unmatched: true},
		`{"allowed":true}`:                                        {Code: "200", Decided: true, Allowed: true},
		`{"allowed":true,"matched":true,"degraded":"store_gone"}`: {Code: "200", Decided: true, Allowed: true, Degraded: true},
		`{"matched":true}`:                                        {Code: "200"},
		`<html>`:                                                  {Code: "200"},
		`{"allowed":true,"more":"` + strings.Repeat("x", maxAnswer) + `"}`: {Code: "200"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, said) }))
		h := &OverHTTP{
			Client: server.Client(), Body: func(int) []byte { return []byte("{}") }, Slow: func() bool { return false },
			Request: func(ctx context.Context, _ int, body io.Reader) (*http.Request, error) {
				return http.NewRequestWithContext(ctx, http.MethodPost, server.URL, body)
			},
		}
		if got := h.Send(t.Context(), 0); got != want {
			t.Errorf("%.99s: %+v, want %+v", strings.TrimSpace(said), got, want)
		}
		server.Close()
	}
}
