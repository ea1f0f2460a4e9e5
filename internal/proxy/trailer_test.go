package proxy

import (
	"fmt"
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
	}), Options{Identifying: []string{"X-Api-Key", "X_tenant"}})
	bad := []string{
		"X-Api-Key", "X_api_key", "X_tenant", "X-Tenant", "X-Forwarded-For", "X-Forwarded-Host", "X_forwarded_for", "X-Real-Ip", "Forwarded", "Host", "Authorization", "Cookie", "Via",
		"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Te", "Upgrade",
	}
	late := ""
	for _, name := range append([]string{"Trailer", "Transfer-Encoding", "Content-Length"}, bad...) { // the first are not to be announced
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

// TestTrailersOfNoBody: HTTP/2 can announce trailers of a request that has no body, and so none.
func TestTrailersOfNoBody(t *testing.T) {
	e := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintln(w, r.Method, n, err, len(r.Trailer))
	}), Options{})
	for _, method := range []string{"GET", "POST"} {
		r, err := http.NewRequest(method, e.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Trailer", "X-Sum")
		if got, want := read(t, e.doH2(r)), method+" 0 <nil> 0\n"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
