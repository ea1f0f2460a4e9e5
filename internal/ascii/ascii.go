// Package ascii says what names are made of that stand in addresses, header fields and metrics
// as they are.
package ascii

import "strings"

// Only reports whether text is made of letters and digits of ASCII and of the signs in others
// alone. So is "".
func Only(text, others string) bool {
	for i := range len(text) {
		if c := text[i]; !isAlphanumeric(c) && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// IsToken reports whether text is a token, such as the name of a header field, a cookie or a
// method (RFC 9110, section 5.6.2).
func IsToken(text string) bool { return text != "" && Only(text, "!#$%&'*+-.^_`|~") }

// IsVisible reports whether text is made of visible characters of ASCII alone, of which the space
// is none. So is "".
func IsVisible(text string) bool { return within(text, '!') }

// IsPrintable reports whether text is made of visible characters of ASCII and of spaces alone. So
// is "".
func IsPrintable(text string) bool { return within(text, ' ') }

// within reports whether no byte of text is below first or above the last visible character.
func within(text string, first byte) bool {
	for i := range len(text) {
		if c := text[i]; c < first || c > '~' {
			return false
		}
	}
	return true
}
