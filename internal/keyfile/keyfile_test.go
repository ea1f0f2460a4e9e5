package keyfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/keyfile"
)

var (
	first  = strings.Repeat("a", keyfile.MinKey)
	second = strings.Repeat("b", keyfile.MinKey+9)
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		text, err string
		keys      []string
	}{
		"one":              {text: first, keys: []string{first}},
		"two":              {text: first + "\n" + second + "\n", keys: []string{first, second}},
		"comments":         {text: "# old and new\r\n\n  " + first + " \r\n#\n" + second, keys: []string{first, second}},
		"none":             {text: "# nothing\n", err: "0 keys; hint: one to a line, 4 at most; `openssl rand -base64 32` makes one"},
		"too many":         {text: strings.Repeat(first+"\n", 5), err: "5 keys; hint"},
		"too short":        {text: "\n" + first[1:] + "\n", err: "line 2: a key of 31 bytes; hint: at least 32"},
		"the second short": {text: first + "\n#\nhunter2\n", err: "line 3: a key of 7 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := keyfile.Parse([]byte(c.text))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("%v, want %s", err, c.err)
				}
				if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "aaaa") {
					t.Errorf("the error tells a key: %v", err)
				}
				return
			}
			if err != nil || len(keys) != len(c.keys) {
				t.Fatalf("%d keys, %v", len(keys), err)
			}
			for i := range keys {
				if keys[i].Reveal() != c.keys[i] {
					t.Errorf("key %d: %q", i, keys[i].Reveal())
				}
			}
		})
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks.key")
	if _, err := keyfile.Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keyfile.Read(path); err == nil || !strings.HasPrefix(err.Error(), path+":1: a key of 5 bytes") {
		t.Errorf("a short key: %v", err)
	}
	if err := os.WriteFile(path, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	if keys, err := keyfile.Read(path); err != nil || len(keys) != 1 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}

// FuzzParse: a text is refused, or its keys are lines of it and long enough.
func FuzzParse(f *testing.F) {
	f.Add(first + "\n# comment\n" + second)
	f.Add("\x00\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := keyfile.Parse([]byte(text))
		if err != nil {
			return
		}
		if len(keys) == 0 || len(keys) > keyfile.MaxKeys {
			t.Errorf("%d keys", len(keys))
		}
		for _, key := range keys {
			if k := key.Reveal(); len(k) < keyfile.MinKey || !strings.Contains(text, k) || strings.Contains(k, "\n") {
				t.Errorf("key %q", k)
			}
		}
	})
}
