package usagetoken_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/usagetoken"
)

// TestTrouble: a file that is missing or cannot be used is told of once, not at every look,
// and again when it is bad in another way.
func TestTrouble(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.key")
	write := func(text string) func() error { return func() error { return os.WriteFile(path, []byte(text), 0o600) } }
	if err := write(key.Reveal())(); err != nil {
		t.Fatal(err)
	}
	keys, err := usagetoken.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what    string
		change  func() error
		trouble bool
	}{
		{"short", write("short"), true},
		{"missing", func() error { return os.Remove(path) }, true},
		{"revoked nobody", write("revoked me"), true},
		{"good", write(other.Reveal()), false},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		if changed, err := keys.Reload(); !changed || (err != nil) != c.trouble {
			t.Errorf("%s: %v, %v", c.what, changed, err)
		}
		if changed, err := keys.Reload(); changed || err != nil {
			t.Errorf("%s, at the second look: %v, %v", c.what, changed, err)
		}
	}
}

// TestManyRevoked: a file takes so many tokens back, and not one more; one key is enough.
func TestManyRevoked(t *testing.T) {
	g, err := newKeys(t, key).Verify(vector, now)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{key.Reveal(), "revoked " + g.ID}
	for i := range 10_000 {
		lines = append(lines, fmt.Sprintf("revoked %016x", i))
	}
	path := filepath.Join(t.TempDir(), "usage.key")
	load := func(lines []string) (*usagetoken.Keys, error) {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return usagetoken.Load(path)
	}
	if _, err := load(lines); err == nil || !strings.Contains(err.Error(), "10001 revoked") {
		t.Errorf("one too many: %v", err)
	}
	keys, err := load(lines[:len(lines)-1])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Verify(vector, now); !errors.Is(err, usagetoken.ErrRevoked) {
		t.Errorf("revoked: %v", err)
	}
	if _, err := keys.Verify(sign(t, keys, acme, now.Add(time.Hour)), now); err != nil {
		t.Errorf("another one: %v", err)
	}
}
