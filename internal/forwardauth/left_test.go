package forwardauth_test

import (
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestG2LeftEntriesNeverChangeTheAnswer: whatever a client writes into X-Forwarded-For,
// on the line that its gateway appends to or on lines before it, the same is asked.
func TestG2LeftEntriesNeverChangeTheAnswer(t *testing.T) {
	hostile := rapid.OneOf(
		rapid.SampledFrom([]string{"", ",", "1.1.1.1", "10.0.0.7", "10.0.0.7:1", "for=1.1.1.1", `"`, `\`, "[::1", "::ffff:10.0.0.7", "203.0.113.9", strings.Repeat("9.9.9.9,", 10_000)}),
		rapid.StringMatching(`[ -~\t]{0,40}`),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 20), func(b []byte) string { return string(b) }),
	)
	for _, name := range profileNames {
		t.Run(name, func(t *testing.T) {
			checker := &asked{}
			h := setup{checker: checker}.make(t)
			ask(h, recorded(t, name))
			want := checker.last()
			rapid.Check(t, func(rt *rapid.T) {
				lines := rapid.SliceOfN(hostile, 0, 20).Draw(rt, "lines")
				last := "203.0.113.9" + rapid.SampledFrom([]string{"", ", 10.0.0.8", ",10.0.0.8 , 10.0.0.9", ", 10.0.0.8:80"}).Draw(rt, "gateways in between")
				if rapid.Bool().Draw(rt, "appended") {
					last = hostile.Draw(rt, "left") + "," + last
				}
				forged := recorded(t, name)
				forged.Header["X-Forwarded-For"] = append(lines, last)
				if w := ask(h, forged); w.Code != http.StatusOK || checker.last() != want {
					rt.Fatalf("%q: status %d, asked %s\nwant %s", last, w.Code, checker.last(), want)
				}
			})
		})
	}
}
