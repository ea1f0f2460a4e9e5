package quotas

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/headgate/headgate/tenant"
)

// Deceptive says why a text is not what it looks like, "" when it is: letters of
// alphabets that look alike beside each other, forms that are drawn as others are, or
// letters that nobody sees. It does not know texts of one alphabet that look like
// those of another one.
func Deceptive(text string) string {
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

// CheckNew refuses subjects that look like other ones: by what Deceptive says, by
// spaces around them, and by letters that are composed in another way than Unicode's
// form NFC has it. It is for names that are to be written. What is there already is
// read and deleted by whatever name it has.
func CheckNew(s tenant.Subject) error {
	if hint := Deceptive(s.Key + ":" + s.Value); hint != "" {
		return errors.New(hint)
	}
	for _, text := range []string{s.Key, s.Value} {
		if strings.TrimSpace(text) != text {
			return errors.New("a space before or after it, which nobody sees; hint: leave it out")
		}
		if !norm.NFC.IsNormalString(text) {
			return errors.New("accents that are letters of their own, which look like letters with accents; hint: write it in Unicode's form NFC")
		}
	}
	return nil
}
