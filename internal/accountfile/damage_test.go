package accountfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// TestEveryByteOfTheEndCounts: a file of which one byte behind the accounts is another one is
// refused when it is opened, and a large account when it is read, whatever else it would say.
func TestEveryByteOfTheEndCounts(t *testing.T) {
	f := many(t, 20)
	whole, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	if f.Large == 0 || f.Words == 0 {
		t.Fatalf("%+v", f.Head)
	}
	path := filepath.Join(t.TempDir(), "damaged")
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { damaged.Close() })
	write := func(at int, b byte) {
		t.Helper()
		if _, err := damaged.WriteAt([]byte{b}, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	for at := int(f.largeAt()); at < len(whole); at++ {
		write(at, whole[at]^1)
		g, err := Open(path)
		if at < int(f.dictionaryAt()) {
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = g.Find(subject(0)) // the large one
			g.Close()
		}
		if !errors.Is(err, errFormat) {
			t.Errorf("byte %d of %d: %v", at, len(whole), err)
		}
		write(at, whole[at])
	}
}

// TestLastOfManyCounts: of accounts of one subject the one that came last is in the file, also
// among others that are sorted with them.
func TestLastOfManyCounts(t *testing.T) {
	byPart := map[byte][]tenant.Subject{}
	var few []tenant.Subject
	for i := 0; len(few) < 3; i++ {
		part := hashOf(subject(i))[0]
		byPart[part] = append(byPart[part], subject(i))
		few = byPart[part]
	}
	f, err := Write(filepath.Join(t.TempDir(), "accounts"), sqltenant.Point{Version: 1}, read(func(yield func(tenant.Account) bool) {
		for i := range 300 {
			if !yield(tenant.Account{Subject: few[i%3], Tiers: []tenant.Assignment{{Tier: fmt.Sprint("t", i)}}}) {
				return
			}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	for i, s := range few {
		if a, ok, err := f.Find(s); err != nil || !ok || a.Tiers[0].Tier != fmt.Sprint("t", 297+i) {
			t.Errorf("%v: %t, %+v, %v", s, ok, a, err)
		}
	}
}

// What is no file is not waited for.
func TestPipeIsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
	if _, _, err := quotas.ReadFile(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}
