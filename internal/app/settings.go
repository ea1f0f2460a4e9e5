package app

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/headgate/headgate/internal/view"
)

// ownSetting reports whether nodes that are alike have values of their own for a setting.
func ownSetting(name string) bool {
	return name == "node-name" || name == "state-dir" || strings.HasSuffix(name, "-addr")
}

// settingDigests tells apart nodes that were started with other settings: by the names of
// those that are not at their defaults, digests of their values. It is nil where settings are
// not known.
func settingDigests(s view.Settings) map[string]string {
	if s.Settings == nil {
		return nil
	}
	digests := map[string]string{}
	for _, one := range s.Settings {
		if one.From == view.FromDefault || one.Value == one.Default || ownSetting(one.Name) {
			continue
		}
		sum := sha256.Sum256([]byte(one.Value))
		digests[one.Name] = hex.EncodeToString(sum[:4])
	}
	return digests
}
