package apikeys

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/reservation"
)

// TestFiles: where the key stands that API keys are hashed by, and what is no key.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.key": "0123456789abcdef0123456789abcdef\n", "same.key": "0123456789abcdef0123456789abcdef", "b.key": "fedcba9876543210fedcba9876543210", "short.key": "secret",
		"with.yaml":    "hash_key_file: a.key\napi_key: {headers: [X-Api-Key], entries: [token]}\ndescriptors: [{entries: [{first: [api_key, remote_address]}]}, {entries: [remote_address], when_unverified: true}]\n",
		"without.yaml": "descriptors: [{entries: [remote_address]}]\n",
		"bad.yaml":     "descriptors: 7\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name := hasher(t).APIKey("abc123")
	for about, c := range map[string]struct {
		identity, key string
		err           string // "" for none
		hashes        bool
		entry         string
	}{
		"nothing":                     {"", "", "", false, ""},
		"a key":                       {"", "a.key", "", true, "api_key"},
		"an identity file with a key": {"with.yaml", "", "", true, "token"},
		"one without":                 {"without.yaml", "", "", false, ""},
		"one without, and a key":      {"without.yaml", "a.key", "", true, "api_key"},
		"the same key in both":        {"with.yaml", "same.key", "", true, "token"},
		"two keys":                    {"with.yaml", "b.key", errTwoKeys.Error(), false, ""},
		"a key that is too short":     {"", "short.key", "short.key: ", false, ""},
		"no such key":                 {"", "absent.key", "absent.key", false, ""},
		"no such identity file":       {"absent.yaml", "", "absent.yaml", false, ""},
		"one that is none":            {"bad.yaml", "a.key", "bad.yaml", false, ""},
	} {
		f := Files{Identity: c.identity, HashKey: c.key}
		if f.Identity != "" {
			f.Identity = filepath.Join(dir, f.Identity)
		}
		if f.HashKey != "" {
			f.HashKey = filepath.Join(dir, f.HashKey)
		}
		names, h, err := f.Read()
		if (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", about, err)
			continue
		}
		if (names != nil) != c.hashes || (h != nil) != c.hashes {
			t.Errorf("%s: names %v, hasher %v", about, names, h)
		}
		if !c.hashes {
			continue
		}
		r := requests(c.entry, "abc123")
		if names.Put(r); r[0].Descriptors[0].Entries[0].Value != name {
			t.Errorf("%s: %v", about, r)
		}
	}
}

// TestListKeepsWhatItHas: a list that cannot be read says that nothing has changed, and changes
// nothing.
func TestListKeepsWhatItHas(t *testing.T) {
	path, name := filepath.Join(t.TempDir(), "known"), hasher(t).APIKey("abc123")
	if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := LoadList(path)
	if err != nil {
		t.Fatal(err)
	}
	for about, spoil := range map[string]func() error{
		"a line that is none": func() error { return os.WriteFile(path, []byte(name+"\nabc123\n"), 0o600) },
		"too large":           func() error { return os.Truncate(path, maxListFile+1) },
		"gone":                func() error { return os.Remove(path) },
	} {
		if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		changed, err := l.Reload()
		if changed || err == nil || strings.Contains(err.Error(), "abc123") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %t, %v", about, changed, err)
		}
		if !l.Known(name) {
			t.Errorf("%s: the key is not known any more", about)
		}
	}
}

// TestDoorHides: where API keys have no names, who answers sees none in what was decided, whatever
// was asked.
func TestDoorHides(t *testing.T) {
	l := limiter(t, nil)
	d := Doors{Veil: NewVeil(func(string) string { return "HASH" })}.Door(l.Door(headgate.DoorOptions{Rights: headgate.Rights{Check: true, Reserve: true, Explain: true}}))
	for about, ask := range map[string]func(r []headgate.Request) error{
		"a check": func(r []headgate.Request) error { return d.Check(t.Context(), r, make([]headgate.Response, 1)) },
		"a check with an id": func(r []headgate.Request) error {
			return d.CheckOnce(t.Context(), r, []string{"1"}, make([]headgate.Response, 1))
		},
		"a reservation": func(r []headgate.Request) error {
			_, err := d.Reserve(t.Context(), &r[0], reservation.Options{}, new(headgate.Response))
			return err
		},
		"a check that is refused": func(r []headgate.Request) error {
			r[0].Descriptors[0].Hits = -1
			if err := d.Check(t.Context(), r, make([]headgate.Response, 1)); !errors.Is(err, headgate.ErrHits) {
				return err
			}
			return nil
		},
	} {
		r := requests("api_key", "abc123")
		if err := ask(r); err != nil {
			t.Errorf("%s: %v", about, err)
		}
		if got := r[0].Descriptors[0].Entries[0].Value; got != HiddenPrefix+"HASH" {
			t.Errorf("after %s: %s", about, got)
		}
	}
}
