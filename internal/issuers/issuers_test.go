package issuers

import (
	"strings"
	"testing"
)

func TestParseName(t *testing.T) {
	for text, want := range map[string]string{
		"https://login.example":         "",
		"https://login.example/realm/":  "",
		"http://localhost:8080/realm":   "",
		"http://[::1]:8080":             "",
		"":                              "no address of an issuer",
		"login.example":                 "no address of an issuer",
		"https://u:p@login.example":     "no address of an issuer",
		"https://login.example?x":       "no address of an issuer",
		"https://login.example#x":       "no address of an issuer",
		"https://login.example/a b":     "no address of an issuer",
		"https://l/" + long(maxName):    "no address of an issuer",
		"http://login.example":          "it is not https",
		"http://localhost.evil.example": "it is not https",
		"file://localhost/x":            "it is not https",
	} {
		_, err := ParseName(text)
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestEndpoint(t *testing.T) {
	there, err := ParseName("https://login.example")
	if err != nil {
		t.Fatal(err)
	}
	here, err := ParseName("http://127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][2]bool{
		"https://keys.example/k":  {true, true},
		"http://127.0.0.1/k":      {false, true},
		"http://keys.example/k":   {false, false},
		"https://u@keys.example/": {false, false},
		"javascript:alert(1)":     {false, false},
		"//keys.example":          {false, false},
		"":                        {false, false},
	} {
		_, a := there.Endpoint(text)
		_, b := here.Endpoint(text)
		if [2]bool{a, b} != want {
			t.Errorf("%s: %v and %v, want %v", text, a, b, want)
		}
	}
}

// FuzzParse: what an issuer says is that of this issuer, or an error.
func FuzzParse(f *testing.F) {
	name, err := ParseName("https://login.example")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{"issuer":"https://login.example","token_endpoint":"https://login.example/t"}`)
	f.Add(`{"issuer":"https://login.example/"}`)
	f.Add(`[1]`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := name.Parse([]byte(text))
		if (d == nil) == (err == nil) || d != nil && d.Issuer != name.String() {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
