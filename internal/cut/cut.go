// Package cut bounds texts without cutting a character in two.
package cut

import "unicode/utf8"

// Text returns the longest beginning of text that has at most so many bytes and does not end
// within a character. Of bytes that are no UTF-8 it may return some less.
func Text[T ~string | ~[]byte](text T, most int) T {
	if len(text) <= most {
		return text
	}
	end := most
	for end > max(most-utf8.UTFMax, 0) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
