package ascii_test

import (
	"testing"

	"github.com/headgate/headgate/internal/ascii"
)

func TestOnly(t *testing.T) {
	for _, c := range []struct {
		text, others string
		want         bool
	}{
		{"", "", true},
		{"azAZ09", "", true},
		{"a-b", "", false},
		{"a-b", "-", true},
		{"a-b_c", "-", false},
		{"a b", "-", false},
		{"@[`{/:", "", false},
		{"é", "-", false},
		{"a\x00", "-", false},
		{"a\xff", "-", false},
	} {
		if got := ascii.Only(c.text, c.others); got != c.want {
			t.Errorf("%q with %q: %t", c.text, c.others, got)
		}
	}
}

func TestIsToken(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "X-Api-Key": true, "GET": true, "a!#$%&'*+-.^_`|~0": true,
		"a b": false, "a:b": false, "a,b": false, "(a)": false, "a\x00": false, "\x7f": false, "ä": false, `a"b`: false, "a/b": false, "@": false,
	} {
		if got := ascii.IsToken(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestWhatIsSeen(t *testing.T) {
	for _, c := range []struct {
		text               string
		visible, printable bool
	}{
		{"", true, true},
		{"!azAZ09{~", true, true},
		{"a b", false, true},
		{"a\tb", false, false},
		{"a\x1f", false, false},
		{"\x7f", false, false},
		{"é", false, false},
		{"a\xff", false, false},
	} {
		if visible, printable := ascii.IsVisible(c.text), ascii.IsPrintable(c.text); visible != c.visible || printable != c.printable {
			t.Errorf("%q: visible %t, printable %t", c.text, visible, printable)
		}
	}
}
