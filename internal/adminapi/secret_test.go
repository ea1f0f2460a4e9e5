package adminapi

import (
	"testing"

	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/internal/yamlfile/slips"
)

// TestErrorsKeepDigests: a broken file never tells the digest of a token.
func TestErrorsKeepDigests(t *testing.T) {
	const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	text := "tokens:\n  - name: alice\n    sha256: " + digest + "\n    scopes: [read, write]\n    expires_at: 2027-01-01T00:00:00Z\n"
	slips.Keeps(t, text, digest, func(text string) error {
		_, err := parseTokens([]byte(text))
		return yamlfile.In("tokens.yaml", err)
	})
}
