package storefile

import (
	"testing"

	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/internal/yamlfile/slips"
)

// TestErrorsKeepPasswords: a broken file never tells the password of a store.
func TestErrorsKeepPasswords(t *testing.T) {
	const secret = "Zq7Xw3Kv9Jt5"
	text := "stores:\n  home:\n    url: rediss://headgate:" + secret + "@redis.internal:6380/0\n    budget: 300ms\n"
	slips.Keeps(t, text, secret, func(text string) error {
		_, err := parse([]byte(text), usual)
		return yamlfile.In("stores.yaml", err)
	})
}
