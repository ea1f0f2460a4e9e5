package config

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/internal/yamlfile/slips"
)

// TestErrorsKeepSettings: a broken file of settings never tells a password, wherever the slip
// puts it.
func TestErrorsKeepSettings(t *testing.T) {
	parser, err := kong.New(new(command), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	flags := parser.Model.Flags
	const secret = "Zq7Xw3Kv9Jt5"
	text := "drain-timeout: 5s\nstore: redis://headgate:" + secret + "@localhost/0\nbody: flat\nshadow: true\nmax-connections: 100\n"
	read := func(text string) error {
		values, err := parseFile([]byte(text), flags)
		if err != nil {
			return yamlfile.In("headgate.yaml", err)
		}
		for key, v := range values {
			if !isSetting(key, flags) {
				return yamlfile.In("headgate.yaml", unknown(v.at, flags))
			}
			for _, flag := range flags {
				if flag.Name != key {
					continue
				}
				if err := try(flag, v.text); err != nil {
					return yamlfile.In("headgate.yaml", yamlfile.At(v.at, "%w", err))
				}
			}
		}
		return nil
	}
	slips.Keeps(t, text, secret, read)
	for _, text := range []string{"S: 1", "drain-timeout: S", "body: S", "shadow: S", "max-connections: S", "retry-jitter: S", "body: [S]", "S", "- S", "store: a\nS: b\nS: c"} {
		err := read(strings.ReplaceAll(text, "S", secret))
		if err == nil || slips.Told(err.Error(), secret) != "" {
			t.Errorf("%s: %v", text, err)
		}
	}
}
