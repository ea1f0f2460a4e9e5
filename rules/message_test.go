package rules_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/rules"
)

func TestParseMessage(t *testing.T) {
	m, err := rules.ParseMessage("a{{b}} {key}{entry.x.y}{rule} {limit}{window}{retry_after}é")
	if err != nil {
		t.Fatal(err)
	}
	want := []rules.MessagePart{
		{Text: "a{b} "}, {Kind: rules.MessageKey}, {Kind: rules.MessageEntry, Text: "x.y"}, {Kind: rules.MessageRule}, {Text: " "},
		{Kind: rules.MessageLimit}, {Kind: rules.MessageWindow}, {Kind: rules.MessageRetryAfter}, {Text: "é"},
	}
	if len(m.Parts) != len(want) {
		t.Fatalf("%+v", m.Parts)
	}
	for i := range want {
		if m.Parts[i] != want[i] {
			t.Errorf("part %d is %+v, want %+v", i, m.Parts[i], want[i])
		}
	}
}

func TestBadMessages(t *testing.T) {
	for text, want := range map[string]string{
		"a {":             "a { stands alone",
		"a } b":           "a } stands alone",
		"{key":            "a { stands alone",
		"{}":              "placeholder {} is unknown",
		"{entry.}":        "placeholder {entry.} is unknown",
		"{Key}":           "placeholder {Key} is unknown",
		"{a{key}}":        "placeholder {a{key} is unknown",
		"{{{key}}":        "a } stands alone",
		"x {user} and {}": "placeholder {user} is unknown",
	} {
		if _, err := rules.ParseMessage(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Text without braces is text, whatever else it has.
func FuzzParseMessage(f *testing.F) {
	f.Add("{key} }} {{ {")
	f.Add("\xff{entry.\x00}")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := rules.ParseMessage(text)
		if err != nil {
			return
		}
		var plain strings.Builder
		for _, p := range m.Parts {
			if p.Kind == rules.MessageText {
				plain.WriteString(p.Text)
			}
		}
		if !strings.ContainsAny(text, "{}") && plain.String() != text {
			t.Errorf("%q became %q", text, plain.String())
		}
	})
}
