package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestDatabaseURLHidesItsSecrets(t *testing.T) {
	for raw, want := range map[string]string{
		"":                                 "",
		"sqlite:///var/lib/t.db":           "sqlite:///var/lib/t.db",
		"postgres://u:hunter2@h/db":        "postgres://h/db",
		"postgres://h/db?password=hunter2": "postgres://h/db",
		"host=h password=hunter2":          hidden,
		"postgres://u:hunter2@[h/db":       hidden,
	} {
		u := DatabaseURL{covered[databaseText]{raw}}
		text, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []string{u.String(), fmt.Sprintf("%v %+v %#v %s %x %d", u, u, u, u, u, u), string(text), slog.AnyValue(u).Resolve().String()} {
			if strings.Contains(got, "hunter2") || !strings.Contains(got, want) {
				t.Errorf("%s prints as %s, want %s", raw, got, want)
			}
		}
		if err := u.Check(); (err == nil) != strings.Contains(raw, "://") || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", raw, err)
		}
		if u.Reveal() != raw {
			t.Errorf("%s reveals %s", raw, u.Reveal())
		}
	}
}
