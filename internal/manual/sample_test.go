package manual

import (
	"strings"
	"testing"
)

// TestSample holds the form of a sample: everything is a comment, with its default.
func TestSample(t *testing.T) {
	serve := app(t).Children[0]
	got := Sample(serve)
	_, got, _ = strings.Cut(got, "themselves.\n")
	const want = `
# ---- Logs ----

# Least level. Default info.
# One of: debug, info.
# Environment: PROG_LEVEL
#level: info

# ---- Others ----

# .5 begins with a dot, and a back\slash follows.
# Environment: PROG_ADDR
#addr: ADDR

# Say it's nothing: not a word.
# Environment: PROG_QUIET
#quiet: false
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestComment(t *testing.T) {
	word := strings.Repeat("x", sampleWidth-2)
	for text, want := range map[string]string{
		"":                         "#\n",
		"a  b":                     "# a b\n",
		word:                       "# " + word + "\n",
		"a " + word + "yyy" + " b": "# a\n# " + word + "yyy\n# b\n",
	} {
		if got := comment(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestScalar(t *testing.T) {
	for value, want := range map[string]string{
		"":                   `""`,
		":8080":              ":8080",
		"http://127.0.0.1:1": "http://127.0.0.1:1",
		"a b":                `"a b"`,
		"-x":                 `"-x"`,
		"a:":                 `"a:"`,
		"say \"\\\n#":        `"say \"\\\n#"`,
		"*":                  `"*"`,
	} {
		if got := Scalar(value); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}
