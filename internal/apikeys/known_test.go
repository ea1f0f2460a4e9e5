package apikeys

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/tenant"
)

func TestListIsReadAgain(t *testing.T) {
	h, path := hasher(t), filepath.Join(t.TempDir(), "known")
	at := time.Now()
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Second) // two writes within one tick of the clock differ all the same
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("# ours", "", h.APIKey("a"), "  hash:"+h.APIKey("b")+"  ")
	l, err := LoadList(path)
	if err != nil || !l.Known(h.APIKey("a")) || !l.Known(h.APIKey("b")) || l.Known(h.APIKey("c")) || l.Unsure(h.APIKey("c")) {
		t.Fatalf("%+v, %v", l, err)
	}
	if changed, err := l.Reload(); changed || err != nil {
		t.Errorf("a file that is the same: %t, %v", changed, err)
	}
	write(h.APIKey("c"))
	if changed, err := l.Reload(); !changed || err != nil || l.Known(h.APIKey("a")) || !l.Known(h.APIKey("c")) {
		t.Errorf("another file: %t, %v", changed, err)
	}
	write(h.APIKey("c"), "sk_live_secret")
	if _, err := l.Reload(); err == nil || !strings.Contains(err.Error(), "known:2:") || strings.Contains(err.Error(), "secret") || !l.Known(h.APIKey("c")) {
		t.Errorf("a key in the file: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Reload(); err == nil || !l.Known(h.APIKey("c")) {
		t.Errorf("no file: %v", err)
	}
	if _, err := LoadList(path); err == nil {
		t.Error("it was loaded all the same")
	}
}

func FuzzParseList(f *testing.F) {
	f.Add("# x\nhash:AAAAAAAAAAAAAAAAAAAAAA\n")
	f.Add("AAAAAAAAAAAAAAAAAAAAAB")
	f.Fuzz(func(t *testing.T, text string) {
		names, err := parseList([]byte(text))
		for name := range names {
			if err != nil || !strings.Contains(text, name) {
				t.Errorf("%q, %v", name, err)
			}
		}
	})
}

func TestAccountsAreKnown(t *testing.T) {
	var s *tenant.Snapshot
	a := Accounts{Snapshot: func() *tenant.Snapshot { return s }}
	if a.Known("x") || !a.Unsure("x") {
		t.Error("before accounts are read, nobody can say")
	}
	s = tenant.NewSnapshot(new(tenant.Tiers), slices.Values([]tenant.Account{
		{Subject: tenant.Subject{Key: Entry, Value: "x"}, Tiers: []tenant.Assignment{{Tier: "pro"}}},
		{Subject: tenant.Subject{Key: "tenant", Value: "y"}, Tiers: []tenant.Assignment{{Tier: "pro"}}},
	}))
	if !a.Known("x") || a.Known("y") || a.Unsure("y") {
		t.Error("which keys are known")
	}
}
