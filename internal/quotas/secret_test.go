package quotas

import (
	"maps"
	"strings"
	"testing"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/yamlfile/slips"
)

// TestErrorsKeepAPIKeys: a broken line of accounts never tells the API key that is its name.
func TestErrorsKeepAPIKeys(t *testing.T) {
	const key = "sk_live_Zq7Xw3Kv9Jt5"
	hasher, err := identity.NewHasher(identity.NewSecret(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	read := func(text string) error {
		line, err := ParseLine([]byte(text))
		if err == nil {
			_, err = ParseName(line.Name, hasher)
		}
		return err
	}
	slips.Keeps(t, `{"name":"`+key+`","tier":"free","overrides":[{"descriptor":"default","requests_per_unit":5,"unit":"minute"}]}`, key, read)
	for _, text := range []string{`{"S":1}`, `{"name":"a","S":"b"}`, `{"name":"hash:S"}`, `{"name":["S"]}`, `{"name":{"S":1}}`, `{"tier":{"S":1}}`, `S`, `"S"`, `{"name":S}`, `{"overrides":[{"unit":"S"}]}`} {
		if err := read(strings.ReplaceAll(text, "S", key)); err != nil && slips.Told(err.Error(), key) != "" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestDocumentsNameNoAPIKey: neither an override nor a top-up of a document may name a key as it is.
func TestDocumentsNameNoAPIKey(t *testing.T) {
	const key, hash = "api_key:sk_live_Zq7Xw3Kv9Jt5", "api_key:jEZVAAAAAAAAAAAAAAAAAA"
	for where, d := range map[string]Document{
		"overrides[1].descriptor": {Overrides: []Override{{Descriptor: hash}, {Descriptor: key}}},
		"top_ups[1].descriptor":   {TopUps: []TopUp{{Descriptor: hash}, {Descriptor: key}}},
	} {
		unfit := maps.Collect(d.UnfitDescriptors())
		if err := unfit[where]; len(unfit) != 1 || err == nil || strings.Contains(err.Error(), "sk_live") {
			t.Errorf("%v, want %s alone and no key", unfit, where)
		}
	}
}
