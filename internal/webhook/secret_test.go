package webhook

import (
	"testing"

	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/internal/yamlfile/slips"
)

// TestErrorsKeepAddresses: a broken file never tells the address of a receiver, in which there may be a
// secret.
func TestErrorsKeepAddresses(t *testing.T) {
	const secret = "Zq7Xw3Kv9Jt5"
	text := "out:\n  - url: https://hooks.example.com/" + secret + "\n    secret_file: a.key\n    thresholds: [80, 100]\n    events: [quota.exhausted]\nin:\n  secret_file: a.key\n"
	slips.Keeps(t, text, secret, func(text string) error {
		_, err := parse([]byte(text), keysByName)
		return yamlfile.In("hooks.yaml", err)
	})
}
