package descriptor

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestFormatAndParse(t *testing.T) {
	for _, test := range []struct {
		entries []Entry
		text    string
	}{
		{nil, ""},
		{[]Entry{{"api_key", "abc"}, {"endpoint", "POST /api/v1/orders"}}, "api_key:abc,endpoint:POST /api/v1/orders"},
		{[]Entry{{"remote_address", "2001:db8::1"}}, "remote_address:2001:db8::1"},
		{[]Entry{{"key", ""}}, "key:"},
		{[]Entry{{"a:b", "c"}, {"a", "b:c"}}, `a\:b:c,a:b:c`},
		{[]Entry{{`a\`, `\,`}}, `a\\:\\\,`},
		{[]Entry{{"k", "line\nend\x00\x7f"}}, `k:line\x0aend\x00\x7f`},
		{[]Entry{{"k", "\xff\xc3"}}, `k:\xff\xc3`},
		{[]Entry{{"k", "größe 水"}}, "k:größe 水"},
		{[]Entry{{"k", "\u202egnp.exe\u0085"}}, `k:\xe2\x80\xaegnp.exe\xc2\x85`},
	} {
		if got := Format(test.entries); got != test.text {
			t.Errorf("Format(%q) = %q, want %q", test.entries, got, test.text)
		}
		if got, err := Parse(test.text); err != nil || !slices.Equal(got, test.entries) {
			t.Errorf("Parse(%q) = %q, %v, want %q", test.text, got, err, test.entries)
		}
	}
}

func TestParseTakesWhatPeopleWrite(t *testing.T) {
	for text, want := range map[string][]Entry{
		`k:a\:b`:     {{"k", "a:b"}},
		`k:\x41\x4A`: {{"k", "AJ"}},
		"k:tab\tend": {{"k", "tab\tend"}},
	} {
		if got, err := Parse(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("Parse(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"novalue", ":value", "a:b,", ",a:b", "a:b,,c:d", `a:\`, `a:\n`, `a:\x4`, `a:\xzz`, `a\`, `k\x:v`,
	} {
		if got, err := Parse(text); !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("Parse(%q) = %q, %v", text, got, err)
		}
	}
}

func FuzzFormat(f *testing.F) {
	f.Add("api_key", "abc", "endpoint", "POST /api/v1/orders")
	f.Add(`a:\,`, "\x00\xff", "k", "")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string) {
		if k1 == "" || k2 == "" {
			return
		}
		entries := []Entry{{k1, v1}, {k2, v2}}
		text := Format(entries)
		if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("Format(%q) = %q is not printable", entries, text)
		}
		if got, err := Parse(text); err != nil || !slices.Equal(got, entries) {
			t.Errorf("Parse(Format(%q)) = %q, %v", entries, got, err)
		}
	})
}

// FuzzParse checks that what parses has one canonical text.
func FuzzParse(f *testing.F) {
	f.Add("api_key:abc,endpoint:POST /api/v1/orders")
	f.Add(`a\:b:\x00\,`)
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(Format(entries))
		if err != nil || !slices.Equal(again, entries) {
			t.Errorf("Parse(%q) = %q, its canonical text %q parses to %q, %v", text, entries, Format(entries), again, err)
		}
	})
}
