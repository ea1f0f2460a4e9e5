package cut_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/cut"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abc", 2, "ab"},
		{"abc", 0, ""},
		{"aß", 2, "a"},
		{"aß", 3, "aß"},
		{"a😀b", 4, "a"},
		{"a😀b", 5, "a😀"},
		{"😀", 2, ""},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80"},
	} {
		if got := cut.Text(c.text, c.most); got != c.want {
			t.Errorf("%q, %d: %q, want %q", c.text, c.most, got, c.want)
		}
		if got := cut.Text([]byte(c.text), c.most); string(got) != c.want {
			t.Errorf("bytes %q, %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

// TestTextIsWhole: what is left begins the text, is UTF-8 where that is, and one more character
// would be too much.
func TestTextIsWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text, most := rapid.String().Draw(rt, "text"), rapid.IntRange(0, 20).Draw(rt, "most")
		got := cut.Text(text, most)
		if !strings.HasPrefix(text, got) || len(got) > most || !utf8.ValidString(got) {
			rt.Fatalf("%q of %q, %d", got, text, most)
		}
		if _, size := utf8.DecodeRuneInString(text[len(got):]); size > 0 && len(got)+size <= most {
			rt.Fatalf("%q of %q: there is room for more than that in %d", got, text, most)
		}
	})
}
