package cli

import (
	"strings"
	"testing"
)

// What a replica has told is marked, and nothing else is.
func TestStaleUsageIsMarked(t *testing.T) {
	const counts = `"name":"tenant:acme","usage":{"default":{"used":3,"limit":5,"remaining":2,"unit":"day","domain":"api","source":"rule"}}`
	for answer, marked := range map[string]bool{"{" + counts + "}": false, `{"stale_s":2,` + counts + "}": true} {
		var out strings.Builder
		if err := new(adminFlags).showUsage(&out, []byte(answer)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "stale    told by a replica, which heard of its primary 2s ago or less\n"); got != marked || !strings.Contains(out.String(), "api") {
			t.Errorf("%s is shown as\n%s", answer, out.String())
		}
	}
}
