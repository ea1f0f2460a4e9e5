package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sentBy draws what a client may write into a header field.
func sentBy() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", ",", "1.1.1.1", "127.0.0.1", "[::1]:80", "for=1.1.1.1", `"`, "203.0.113.9", strings.Repeat("9.9.9.9, ", 1000)}),
		rapid.StringMatching(`[!-~]{0,20}( [!-~]{0,20})?`),
	)
}

// TestG2LeftEntriesBuyNothing: a client whose limit is used up stays denied, whatever
// stands left of the address that its proxy tells of; and one that is no proxy cannot
// tell an address at all.
func TestG2LeftEntriesBuyNothing(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer backend.Close()
	for name, trusted := range map[string]string{"behind a proxy": "127.0.0.0/8", "at the edge": ""} {
		t.Run(name, func(t *testing.T) {
			s := proxyBefore(t, backend.URL, twoADay)
			s.TrustedProxies = trusted
			url, _ := runProxy(t, s)
			send := func(lines ...string) int {
				r := must(http.NewRequest("GET", url, nil))
				r.Header["X-Forwarded-For"] = lines
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				return resp.StatusCode
			}
			for range 2 {
				if got := send("203.0.113.9"); got != http.StatusOK {
					t.Fatalf("within the limit: status %d", got)
				}
			}
			rapid.Check(t, func(rt *rapid.T) {
				lines := rapid.SliceOfN(sentBy(), 0, 10).Draw(rt, "lines")
				last := "203.0.113.9"
				if rapid.Bool().Draw(rt, "appended") {
					last = sentBy().Draw(rt, "left") + ", " + last
				}
				if got := send(append(lines, last)...); got != http.StatusTooManyRequests {
					rt.Fatalf("status %d after %q, %q", got, lines, last)
				}
			})
			if got, want := send("198.51.100.7"), http.StatusOK; (got == want) != (trusted != "") {
				t.Errorf("another address: status %d", got)
			}
		})
	}
}
