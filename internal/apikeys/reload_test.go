package apikeys

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestListOfTheSameSize: a file in which one name stands in the place of another is read again,
// though it is as long as before.
func TestListOfTheSameSize(t *testing.T) {
	h, path := hasher(t), filepath.Join(t.TempDir(), "known")
	write := func(key string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(path, []byte(h.APIKey(key)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Unix(1e9, 0)
	write("a", at)
	l, err := LoadList(path)
	if err != nil {
		t.Fatal(err)
	}
	write("b", at.Add(time.Second))
	if changed, err := l.Reload(); !changed || err != nil || l.Known(h.APIKey("a")) || !l.Known(h.APIKey("b")) {
		t.Errorf("%t, %v", changed, err)
	}
}

// TestLongList: a file that is too long is not read, and what was known stays.
func TestLongList(t *testing.T) {
	h, path := hasher(t), filepath.Join(t.TempDir(), "known")
	if err := os.WriteFile(path, []byte(h.APIKey("a")), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := LoadList(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, maxListFile+1); err != nil {
		t.Fatal(err)
	}
	if changed, err := l.Reload(); changed || err == nil || !strings.Contains(err.Error(), "more than") || !l.Known(h.APIKey("a")) {
		t.Errorf("%t, %v", changed, err)
	}
}
