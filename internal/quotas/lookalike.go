package quotas

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/headgate/headgate/descriptor"
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

// CheckNewDescriptor refuses the text of a descriptor that is not what it looks like, by what
// Deceptive says, and one with an API key as it is: descriptors are kept, logged and shown, and
// requests have the hash of the key. It is for quotas that are to be written; that the text is
// a descriptor at all says tenant.ParseDescriptor.
func CheckNewDescriptor(text string) error {
	if hint := Deceptive(text); hint != "" {
		return errors.New(hint)
	}
	entries, _ := descriptor.Parse(text)
	for _, e := range entries {
		if e.Key == apiKeyEntry && !isHash(e.Value) {
			return errors.New("an API key is not kept as it is; hint: api_key:HASH, where HASH is what `headgate quota get KEY --hash-key FILE` prints after 'hash:'")
		}
	}
	return nil
}

// UnfitDescriptors yields what CheckNewDescriptor refuses in d, by the field where that stands.
func (d *Document) UnfitDescriptors() iter.Seq2[string, error] {
	return func(yield func(field string, err error) bool) {
		for i := range d.Overrides {
			if err := CheckNewDescriptor(d.Overrides[i].Descriptor); err != nil && !yield(fmt.Sprintf("overrides[%d].descriptor", i), err) {
				return
			}
		}
		for i := range d.TopUps {
			if err := CheckNewDescriptor(d.TopUps[i].Descriptor); err != nil && !yield(fmt.Sprintf("top_ups[%d].descriptor", i), err) {
				return
			}
		}
	}
}

// CheckNewTiers is CheckNewDescriptor for all quotas of all tiers. It names the tier of the error.
func CheckNewTiers(set *tenant.Tiers) (tier string, err error) {
	for _, name := range set.Names() {
		for text := range set.Tier(name).Quotas {
			if err := CheckNewDescriptor(text); err != nil {
				return name, err
			}
		}
	}
	return "", nil
}
