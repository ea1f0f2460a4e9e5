package conn

import (
	"iter"
	"strings"
)

// InfoLines are the lines "name:value" of an answer to INFO, of the first maxInspected bytes.
func InfoLines(info string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for line := range strings.Lines(info[:min(len(info), maxInspected)]) {
			name, value, found := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
			if found && !yield(name, value) {
				return
			}
		}
	}
}

// infoPairs reads a value that has parts, such as "keys=12,expires=3".
func infoPairs(value string) map[string]string {
	said := map[string]string{}
	for pair := range strings.SplitSeq(value, ",") {
		name, is, _ := strings.Cut(pair, "=")
		said[name] = is
	}
	return said
}
