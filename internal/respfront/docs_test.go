package respfront_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/rules/rulefile"
)

var numbered = regexp.MustCompile(`(?m)^\d\) \(integer\) (-?\d+)$`)

// TestDocs: the examples of docs/redis.md answer as it says, by the rules of the quick start.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("../../examples/rules/quickstart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := newBenchOf(t, rulefile.File{Name: "quickstart.yaml", Data: rules}, "", everyRight, nil).dial()
	asked := 0
	for _, block := range regexp.MustCompile("(?s)```redis\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for _, example := range strings.Split(block[1], "> ")[1:] {
			ask, answer, _ := strings.Cut(example, "\n")
			var want []string
			for _, line := range numbered.FindAllStringSubmatch(answer, -1) {
				want = append(want, ":"+line[1])
			}
			if got := c.ask(ask); got != "["+strings.Join(want, " ")+"]" {
				t.Errorf("%s: %s, but the page says %v", ask, got, want)
			}
			asked++
		}
	}
	if asked != 3 {
		t.Errorf("%d examples", asked)
	}
}
