// Package slips breaks files that hold secrets, for tests of those who read them.
package slips

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/yamlfile"
)

// piece is how much of a secret an error may have, in bytes, before it tells of it.
const piece = 6

// breakers are what stands in a file by a slip, or makes something else of what follows.
var breakers = []string{" ", "\n", "\t", ":", ": ", "\n  ", "#", " #", "'", `"`, "{", "}", "[", "]", ",", "&", "*", "!", "|\n", "> ", "%", "@", "`", "- ", "? ", "<<: ", "--- ", "\x00", "\xff", "\x1b[2J", "\u2028", "7", "a"}

// Keeps breaks a good file in all places, in each of many ways, and fails the test where an error
// of read has part of a secret that stands in the file, or shows a line.
func Keeps(t *testing.T, text, secret string, read func(text string) error) {
	t.Helper()
	if err := read(text); err != nil {
		t.Fatalf("the file that is to be broken is not good: %v", err)
	}
	if !strings.Contains(text, secret) || len(secret) < 2*piece {
		t.Fatalf("%q is no secret of the file, or too short to be told from other words", secret)
	}
	refused := 0
	for broken := range Broken(text) {
		err := read(broken)
		if err == nil {
			continue
		}
		refused++
		if told := Told(err.Error(), secret); told != "" {
			t.Fatalf("%q\nis refused with part of the secret, %q: %v", broken, told, err)
		}
		if at, ok := errors.AsType[*yamlfile.Error](err); ok && at.Excerpt() != "" {
			t.Fatalf("%q\nis refused with a line of it: %s", broken, at.Excerpt())
		}
	}
	if refused < len(text) {
		t.Errorf("only %d texts were refused", refused)
	}
}

// Told returns a part of a secret that stands in a text, "" where there is none.
func Told(text, secret string) string {
	for i := range len(secret) - piece + 1 {
		if strings.Contains(text, secret[i:i+piece]) {
			return secret[i : i+piece]
		}
	}
	return ""
}

// Broken yields texts that differ from one in one place: a byte is left out, something is put
// in, the rest is cut off, or a line is missing.
func Broken(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range len(text) {
			before, after := text[:i], text[i:]
			if !yield(before+after[1:]) || !yield(before) || !yield(after) {
				return
			}
			for _, b := range breakers {
				if !yield(before + b + after) {
					return
				}
			}
		}
		lines := strings.SplitAfter(text, "\n")
		for i := range lines {
			if !yield(strings.Join(lines[:i], "") + strings.Join(lines[i+1:], "")) {
				return
			}
		}
	}
}
