// Package spelling finds what somebody meant who has misspelt a name.
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

// distance is the number of bytes to insert, delete or replace to turn a
// into b (Levenshtein), in the two-row form of Wagner and Fischer.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
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
