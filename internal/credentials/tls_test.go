package credentials_test

import (
	"crypto/tls"
	"testing"

	"github.com/headgate/headgate/internal/credentials"
)

// TestConfigHeedsWhatIsSaid: the settings of a connection have the name and the least version that
// are said, and never a version below 1.2.
func TestConfigHeedsWhatIsSaid(t *testing.T) {
	for files, want := range map[credentials.Files]uint16{
		{}:                             tls.VersionTLS12,
		{MinVersion: tls.VersionTLS10}: tls.VersionTLS12,
		{ServerName: "redis.internal", MinVersion: tls.VersionTLS13}: tls.VersionTLS13,
	} {
		loaded, err := credentials.Load(files)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // read again
			if c, err := loaded.Config(); err != nil || c.ServerName != files.ServerName || c.MinVersion != want {
				t.Errorf("%+v: %q, version %x, %v", files, c.ServerName, c.MinVersion, err)
			}
		}
	}
}
