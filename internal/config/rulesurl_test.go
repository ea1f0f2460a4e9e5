package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// NewRulesURLs returns raw as RulesURLs.
func NewRulesURLs(raw string) RulesURLs { return RulesURLs{covered[rulesText]{raw}} }

func TestRulesURLs(t *testing.T) {
	list, err := NewRulesURLs("https://rules.internal:8443/a.yaml?sig=hush, s3://bucket/b/c.yaml").List()
	if err != nil || len(list) != 2 || list[0].Query().Get("sig") != "hush" || list[1].Host != "bucket" {
		t.Errorf("%v, %v", list, err)
	}
	for text, want := range map[string]string{
		"http://h/hush":                      "without TLS",
		"file:///hush":                       "not an address",
		"hush":                               "not an address",
		"https:///hush":                      "not an address",
		"https://hush:hush@h/r":              "a user in the URL",
		"https://h/r#hush":                   "a fragment",
		"https://h":                          "no document",
		"s3://bucket":                        "no document",
		"s3://bucket/hush/":                  "no document",
		"s3://bucket/r?hush=1":               "a query or a port",
		"s3://Hush/r":                        "the name of a bucket",
		"https://h/r?sig=hush,https://h/r":   "the same but for their queries",
		"https://h/%zzhush":                  "not a URL",
		"https://h/r,":                       "not an address",
		strings.Repeat("https://h/hush,", 3): "the same",
	} {
		_, err := NewRulesURLs(text).List()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "--rules-url: ") || !strings.Contains(err.Error(), "hint: ") || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", text, err)
		}
	}
	var many []string
	for i := range maxRulesURLs + 1 {
		many = append(many, fmt.Sprintf("https://h/%d", i))
	}
	if _, err := NewRulesURLs(strings.Join(many, ",")).List(); err == nil || !strings.Contains(err.Error(), "more than 16") {
		t.Error(err)
	}
}

// TestRulesURLsAreShownWithoutQueries: a signed address lets whoever reads it read the rules.
func TestRulesURLsAreShownWithoutQueries(t *testing.T) {
	u := NewRulesURLs("https://rules.internal/a.yaml?X-Amz-Signature=hush")
	text, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{u.String(), fmt.Sprintf("%v %+v %#v %q %x", u, u, u, u, u), string(text), u.LogValue().String()} {
		if strings.Contains(got, "hush") || !strings.Contains(got, "https://rules.internal/a.yaml") {
			t.Error(got)
		}
	}
	if got := NewRulesURLs("https://a:hush@h/").String(); got != hidden {
		t.Error(got)
	}
}

func TestRulesAwayAreRefused(t *testing.T) {
	for want, s := range map[string]Settings{
		"one of the three":          {Rules: "r", RulesAway: RulesAway{RulesURL: NewRulesURLs("https://h/r")}},
		"one without the other":     {RulesAway: RulesAway{RulesURL: NewRulesURLs("https://h/r"), RulesURLKey: "k"}},
		"is one of HTTPS":           {RulesAway: RulesAway{RulesURL: NewRulesURLs("s3://bucket/r"), RulesURLToken: "t"}},
		"is one of S3":              {RulesAway: RulesAway{RulesURL: NewRulesURLs("https://h/r"), RulesS3Region: "eu"}},
		"the name of a region":      {RulesAway: RulesAway{RulesURL: NewRulesURLs("s3://bucket/r"), RulesS3Region: "eu/hush"}},
		"an address of HTTPS alone": {RulesAway: RulesAway{RulesURL: NewRulesURLs("s3://bucket/r"), RulesS3Endpoint: "http://h"}},
		"--rules-url-ca":            {RulesAway: RulesAway{RulesURLCA: "f"}},
	} {
		if err := s.validateRulesAway(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
