package diff_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/rules/diff"
	"github.com/headgate/headgate/rules/rulefile"
)

// A file that is read as envoyproxy/ratelimit reads it, and then without that, is counted in
// another way: that is said of each limit and of the domain. Written down, nothing changes.
func TestDiffShowsHowCompatCounts(t *testing.T) {
	const (
		plain = `domain: d
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 100}
  descriptors: [{key: op, rate_limit: {unit: minute, requests_per_unit: 3}}]
`
		written = `domain: d
match: leaf
consumption: independent
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 100, algorithm: fixed_window, count_denied: true}
  descriptors: [{key: op, rate_limit: {unit: minute, requests_per_unit: 3, algorithm: fixed_window, count_denied: true}}]
`
	)
	for now, want := range map[string]string{
		plain: `~ d.user: limit: 100 per 1m fixed_window, denied hits charged -> 100 per 1m sliding_window
~ d.user.op: limit: 3 per 1m fixed_window, denied hits charged -> 3 per 1m sliding_window
~ domain d: consumption: independent -> all_or_nothing`,
		written: "",
	} {
		var lines []string
		for _, c := range diff.Sets(testrules.LoadWith(t, plain, rulefile.Options{Compat: true}), testrules.Load(t, now)) {
			lines = append(lines, c.String())
		}
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}
