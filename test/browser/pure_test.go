package browser

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testserver"
)

// entry is descriptor.Entry as scripts have it.
type entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Both sides write and read the same descriptors. What a script does with accounts is
// asserted in the script.
func TestDescriptorsAsText(t *testing.T) {
	type given struct {
		Text    string  `json:"text"`
		Entries []entry `json:"entries"`
	}
	random := rand.New(rand.NewPCG(1, 2))
	letters := []rune("ab1 :,\\\"<>&'/x\x00\n\x7f\u2028\u202eäß漢😀")
	word := func(least int) string {
		var b strings.Builder
		for range least + random.IntN(8) {
			b.WriteRune(letters[random.IntN(len(letters))])
		}
		return b.String()
	}
	var cases []given
	var all [][]descriptor.Entry
	for range 2000 {
		var g given
		var entries []descriptor.Entry
		for range 1 + random.IntN(4) {
			e := descriptor.Entry{Key: word(1), Value: word(0)}
			entries, g.Entries = append(entries, e), append(g.Entries, entry{e.Key, e.Value})
		}
		g.Text = descriptor.Format(entries)
		cases, all = append(cases, g), append(all, entries)
	}
	told, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), testserver.Binary(t, "node"), "pure.mjs")
	cmd.Stdin = bytes.NewReader(told)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("pure.mjs: %v\n%s", err, stderr.String())
	}
	var texts []string
	if err := json.Unmarshal(out, &texts); err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if entries, err := descriptor.Parse(text); err != nil || !slices.Equal(entries, all[i]) {
			t.Errorf("the dashboard writes %q for %q: %v", text, all[i], err)
		}
	}
	if len(texts) != len(all) {
		t.Errorf("%d texts of %d", len(texts), len(all))
	}
}
