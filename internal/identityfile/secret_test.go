package identityfile

import (
	"testing"

	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/internal/yamlfile/slips"
)

// TestErrorsKeepSecrets: a broken file never tells what somebody has written into it that may be
// a secret, such as the address of a directory of keys with a password.
func TestErrorsKeepSecrets(t *testing.T) {
	const secret = "Zq7Xw3Kv9Jt5"
	o := Options{Path: write(t, "")}
	text := "hash_key_file: hash.key\napi_key: {headers: [X-API-Key], known: {url: 'https://keys.example/?token=" + secret + "'}, unknown: refuse}\ndescriptors:\n  - entries: [{all: [api_key, {literal: " + secret + ", as: place}]}]\n"
	slips.Keeps(t, text, secret, func(text string) error {
		_, err := o.parse([]byte(text))
		return yamlfile.In("identity.yaml", err)
	})
}
