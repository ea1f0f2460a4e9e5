// Package spelling finds the name that somebody meant who has misspelt it.
package spelling

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// maxName bounds the names that are compared, in bytes: no name that is known is as long.
const maxName = 64

// Nearest returns the one of known that name is most likely a misspelling of, "" if none is
// near: of those that are equally near the first in the alphabet.
func Nearest(name string, known iter.Seq[string]) string {
	if len(name) > maxName {
		return ""
	}
	best, nearest := 1+len(name)/3, ""
	for k := range known {
		if d := distance(name, k); d < best || d == best && nearest != "" && k < nearest {
			best, nearest = d, k
		}
	}
	return nearest
}

// distance is the number of bytes to insert, delete or replace, or of neighbours to exchange, to
// turn a into b, where nothing is changed twice (optimal string alignment), in the form of Wagner
// and Fischer with three rows.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// Unknown returns the error of a word that is none of those known for what it is to be, such as a
// right. It does not repeat the word: what stands in a wrong place of a file may be a secret.
func Unknown(what, word string, known ...string) error {
	near := Nearest(word, slices.Values(known))
	if near != "" {
		near = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Errorf("unknown %s; hint: %s%s", what, near, strings.Join(known, ", "))
}
