package keyfile

import (
	"testing"

	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/internal/yamlfile/slips"
)

// TestErrorsKeepKeys: a broken file never tells a key.
func TestErrorsKeepKeys(t *testing.T) {
	const key = "tF0mY1kqPz8sVw3xRb6nLc9dHj2gKf5a"
	slips.Keeps(t, key+"\n", key, func(text string) error {
		_, err := Parse([]byte(text))
		return yamlfile.In("hooks.key", err)
	})
}
