package adminapi

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/quotas"
)

// parseName reads the name of an account; see quotas.ParseName. field is where it
// stood. It takes less than what a request may carry: no text that could be taken
// for another one, and no API key that is none. Errors do not hold the name.
func parseName(text, field string, hasher *identity.Hasher) (quotas.Name, *problem) {
	name, err := quotas.ParseName(text, hasher)
	if err != nil {
		return name, badField(http.StatusUnprocessableEntity, field, "%v", err)
	}
	prefix, _, found := strings.Cut(text, ":")
	named := found && (prefix == "hash" || prefix == "tenant" || prefix == "entry")
	if !named && strings.ContainsFunc(text, notOfKeys) {
		return name, badField(http.StatusUnprocessableEntity, field, "not an API key: a letter of it is none of visible ASCII, or a quote, ';', ',' or a backslash; hint: name it by hash:HASH if it is one all the same")
	}
	if hint := deceptive(text); hint != "" {
		return name, badField(http.StatusUnprocessableEntity, field, "%s", hint)
	}
	return name, nil
}

// notOfKeys reports whether API keys do not have r: those that travel in a header
// field, which are all, have visible ASCII, and no generator makes quotes.
func notOfKeys(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune("\"'`;,\\", r)
}

// deceptive says why a text is not what it looks like, "" when it is: letters of
// alphabets that look alike beside each other, forms that are drawn as others are, or
// letters that nobody sees. It does not know texts of one alphabet that look like
// those of another one.
func deceptive(text string) string {
	if !utf8.ValidString(text) {
		return "not UTF-8"
	}
	alphabets := 0
	for _, table := range []*unicode.RangeTable{unicode.Latin, unicode.Cyrillic, unicode.Greek} {
		if strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(table, r) }) {
			alphabets++
		}
	}
	switch {
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "a letter of it is not printable"
	case alphabets > 1:
		return "letters of Latin, Cyrillic or Greek beside each other, which look alike"
	case strings.ContainsFunc(text, func(r rune) bool { return r >= 0xff00 && r <= 0xffef || r >= 0x1d400 && r <= 0x1d7ff }):
		return "letters in a wide or mathematical form, which look like others"
	}
	return ""
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
