package excerpt

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

func TestOf(t *testing.T) {
	long := strings.Repeat("a", 500)
	for _, c := range []struct {
		text         string
		line, column int
		want         Excerpt
	}{
		{"a: 1\nb: 2\n", 2, 4, Excerpt{2, "b: 2", 3}},
		{"a: 1\nb: 2", 2, 5, Excerpt{2, "b: 2", 4}},
		{"a: 1", 1, 99, Excerpt{1, "a: 1", 4}},
		{"a: 1", 1, 0, Excerpt{1, "a: 1", 0}},
		{"a: 1\r\nb: 2\r\n", 2, 4, Excerpt{2, "b: 2", 3}},
		{"a: 1\rb: 2\u2028c: 3\u0085d: 4", 4, 1, Excerpt{4, "d: 4", 0}},
		{"a: 1", 2, 1, Excerpt{}},
		{"a: 1\n \t\nb", 2, 1, Excerpt{}},
		{"a: 1", 0, 1, Excerpt{}},
		{"", 1, 1, Excerpt{}},
		{"\tkey: 1", 1, 2, Excerpt{1, " key: 1", 1}},
		{"名前: x", 1, 5, Excerpt{1, "名前: x", 6}},
		{"e\u0301: x", 1, 5, Excerpt{1, "e\u0301: x", 3}},
		{"a\x1b[31mb", 1, 3, Excerpt{1, `a\x1b[31mb`, 5}},
		{"a\u202eb", 1, 3, Excerpt{1, `a\u202eb`, 7}},
		{"a\xffb", 1, 3, Excerpt{1, `a\xffb`, 5}},
		{long, 1, 1, Excerpt{1, long[:maxWidth] + cut, 0}},
		{long, 1, 501, Excerpt{1, cut + long[:maxWidth], maxWidth + len(cut)}},
		{long, 1, 251, Excerpt{1, cut + long[:maxWidth] + cut, maxWidth/2 + len(cut)}},
		{long[:90] + strings.Repeat("名", 90), 1, 100, Excerpt{1, cut + strings.Repeat("a", 32) + strings.Repeat("名", 34) + cut, 53}},
	} {
		if got := Of([]byte(c.text), c.line, c.column); got != c.want {
			t.Errorf("%.20q, %d:%d: %+v, want %+v", c.text, c.line, c.column, got, c.want)
		}
	}
}

func TestString(t *testing.T) {
	if got, want := Of([]byte("x\nab: 1"), 2, 3).String(), "      2 | ab: 1\n        |   ^\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (Excerpt{}).String(); got != "" {
		t.Errorf("%q", got)
	}
}

// FuzzOf: an excerpt is no wider than it may be, its mark stands below it or behind its end, and a
// terminal finds nothing in it to obey.
func FuzzOf(f *testing.F) {
	f.Add([]byte("a: 1\nb: \x1b[2J\u202e名\xff\tc"), 2, 3)
	f.Add([]byte(strings.Repeat("\u0301", 1000)), 1, 500)
	f.Add([]byte("a\r\rb\u2029\n"), 3, -1)
	f.Fuzz(func(t *testing.T, text []byte, line, column int) {
		line %= 10
		e := Of(text, line, column)
		wide := 0
		for _, r := range e.Text {
			switch kind := width.LookupRune(r).Kind(); {
			case unicode.In(r, unicode.Mn, unicode.Me):
			case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
				wide += 2
			default:
				wide++
			}
			if !unicode.IsPrint(r) {
				t.Errorf("%q has %U", e.Text, r)
			}
		}
		if !utf8.ValidString(e.Text) || wide > maxWidth+2*len(cut) || e.Mark < 0 || e.Mark > wide {
			t.Errorf("%+v, %d columns", e, wide)
		}
		if e != (Excerpt{}) && e.Number != line {
			t.Errorf("%+v of line %d", e, line)
		}
	})
}
