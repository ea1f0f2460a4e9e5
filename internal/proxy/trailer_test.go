package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestTrailersSayNothingOfTheClient: what a backend may take for a field of the header is
// no more believed in a trailer than there, announced or not, and others pass.
func TestTrailersSayNothingOfTheClient(t *testing.T) {
	var got http.Header
	e := front(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		got = r.Trailer
	}), Options{Identifying: []string{"X-Api-Key"}})
	bad := []string{"X-Api-Key", "X_api_key", "X-Forwarded-For", "X-Forwarded-Host", "X_forwarded_for", "X-Real-Ip", "Forwarded", "Connection", "Host", "Authorization", "Via"}
	late := ""
	for _, name := range bad {
		late += name + ": 6.6.6.6\n"
	}
	for _, announced := range []string{"X-Sum", "X-Sum, " + strings.Join(bad, ", ")} {
		c := e.dial()
		c.send("POST / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\nTrailer: " + announced + "\n\n2\nab\n0\nX-Sum: 7\n" + late + "\n")
		if res := c.answer("POST"); res.StatusCode != 200 || got.Get("X-Sum") != "7" || len(got) != 1 {
			t.Errorf("announced %q: %d, trailers %v", announced, res.StatusCode, got)
		}
	}
}
