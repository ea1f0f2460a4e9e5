package accountfile

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// drawAccount draws an account of few subjects; one without anything is one that is not
// there.
func drawAccount(t *rapid.T) tenant.Account {
	a := tenant.Account{Subject: subject(rapid.IntRange(0, 40).Draw(t, "subject"))}
	if rapid.Bool().Draw(t, "tier") {
		a.Tiers = []tenant.Assignment{{Tier: rapid.SampledFrom([]string{"pro", "free", "max"}).Draw(t, "name")}}
	}
	for i := range rapid.SampledFrom([]int{0, 0, 1, 2, 60}).Draw(t, "overrides") {
		descriptor := ""
		if i > 0 {
			descriptor = fmt.Sprint("endpoint:/", i)
		}
		a.Overrides = append(a.Overrides, override(descriptor, rapid.Int64Range(1, 1000).Draw(t, "quota")))
	}
	if rapid.IntRange(0, 5).Draw(t, "top-up") == 0 {
		a.TopUps = []tenant.TopUp{{ID: "t1", Hits: 7, Term: tenant.Term{From: noon, Until: noon.Add(time.Hour)}}}
	}
	return a
}

func override(descriptor string, quota int64) tenant.Override {
	r := sqltenant.Record{Subject: subject(0), Overrides: []sqltenant.Override{{ID: "1", Descriptor: descriptor, RequestsPerUnit: quota, Unit: time.Minute, Algorithm: limit.SlidingWindow}}}
	a, err := r.Account()
	if err != nil {
		panic(err)
	}
	return a.Overrides[0]
}

func subject(i int) tenant.Subject { return tenant.Subject{Key: "tenant", Value: fmt.Sprint("t", i)} }

// same fails unless two snapshots say the same of all subjects.
func same(t *rapid.T, when string, got, want *tenant.Snapshot) {
	if got.Len() != want.Len() || got.Parts() != want.Parts() {
		t.Fatalf("%s: %d accounts with %d parts, want %d with %d", when, got.Len(), got.Parts(), want.Len(), want.Parts())
	}
	for i := range 45 {
		for range 2 { // from the file, and from memory
			s := subject(i)
			a, b := got.Standing(s, limit.MicrosOf(noon)), want.Standing(s, limit.MicrosOf(noon))
			p, from, _ := a.Quota(nil)
			q, of, _ := b.Quota(nil)
			if a.Tier() != b.Tier() || from != of || !reflect.DeepEqual(p, q) {
				t.Fatalf("%s: %v has tier %q and %v from %v, want %q and %v from %v", when, s, a.Tier(), p, from, b.Tier(), q, of)
			}
			if g, h := got.AppendGrants(nil, s, nil, limit.MicrosOf(noon)), want.AppendGrants(nil, s, nil, limit.MicrosOf(noon)); len(g) != len(h) || len(g) > 0 && g[0].Hits != h[0].Hits {
				t.Fatalf("%s: %v has %d top-ups, want %d", when, s, len(g), len(h))
			}
		}
	}
}

// A snapshot over a file, changed and merged into another file, says what one in memory
// says.
func TestFileEqualsMemory(t *testing.T) {
	dir := t.TempDir()
	tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "free"}, {Name: "pro"}, {Name: "max"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SliceOfN(rapid.Custom(drawAccount), 0, 60)
		path := func() string { files++; return filepath.Join(dir, fmt.Sprint(files)) }
		accounts := slices.CompactFunc(slices.SortedStableFunc(slices.Values(draw.Draw(t, "accounts")), func(a, b tenant.Account) int {
			return strings.Compare(a.Subject.Value, b.Subject.Value)
		}), func(a, b tenant.Account) bool { return a.Subject == b.Subject })
		memory := tenant.NewSnapshot(tiers, slices.Values(accounts))
		f, err := Write(path(), sqltenant.Point{Version: 3, Digest: "d"}, read(slices.Values(accounts)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		disk := tenant.NewSnapshotOver(tiers, f)
		same(t, "written", disk, memory)
		for range 2 {
			changes := draw.Draw(t, "changes")
			memory, disk = memory.With(changes...), disk.With(changes...)
			same(t, "changed", disk, memory)
		}
		merged, err := Merge(path(), sqltenant.Point{Version: 9}, disk)
		if err != nil {
			t.Fatal(err)
		}
		defer merged.Close()
		if merged.Point.Version != 9 || f.Point.Digest != "d" {
			t.Fatalf("%+v, %+v", merged.Point, f.Point)
		}
		again := tenant.NewSnapshotOver(tiers, merged)
		same(t, "merged", again, memory)
		if again.Changes() != 0 || disk.Lookups().Failures != 0 {
			t.Fatal(again.Changes(), disk.Lookups())
		}
		os.Remove(f.Path())
		os.Remove(merged.Path())
	})
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// read is accounts that were all read.
func read(accounts iter.Seq[tenant.Account]) iter.Seq2[tenant.Account, error] {
	return func(yield func(tenant.Account, error) bool) {
		for a := range accounts {
			if !yield(a, nil) {
				return
			}
		}
	}
}

// Of accounts that were not all read there is no file, and the one before stays.
func TestHalfReadIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	path, failed := filepath.Join(dir, "accounts"), errors.New("the database has gone")
	half := func(fails error) (*File, error) {
		return Write(path, sqltenant.Point{Version: 1}, func(yield func(tenant.Account, error) bool) {
			if yield(tenant.Account{Subject: subject(1), Tiers: []tenant.Assignment{{Tier: "pro"}}}, nil) && fails != nil {
				yield(tenant.Account{}, fails)
			}
		})
	}
	f, err := half(nil)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	before, _ := os.ReadFile(path)
	if _, err := half(failed); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file is another one: %v", err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 1 {
		t.Errorf("left behind: %q", names)
	}
}

// many writes a file of n accounts, of which some have texts of their own.
func many(t testing.TB, n int) *File {
	t.Helper()
	f, err := Write(filepath.Join(t.TempDir(), "accounts"), sqltenant.Point{Version: 1}, read(func(yield func(tenant.Account) bool) {
		for i := range n {
			a := tenant.Account{Subject: subject(i), Tiers: []tenant.Assignment{{Tier: "pro"}}}
			if i%10 == 0 {
				a.Overrides = []tenant.Override{override("", int64(i+1))}
			}
			if i%1000 == 0 {
				for j := range 50 {
					a.Overrides = append(a.Overrides, override(fmt.Sprint("endpoint:/", j), int64(i+1)))
				}
			}
			if !yield(a) {
				return
			}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// All of many are found, over blocks, words and large texts; and nobody else.
func TestManyAccounts(t *testing.T) {
	const n = 8000
	f := many(t, n)
	if f.Len() != n || f.Blocks < 30 || f.Large == 0 || f.Words < 700 {
		t.Errorf("%+v", f.Head)
	}
	for i := range n {
		a, ok, err := f.Find(subject(i))
		if err != nil || !ok || a.Subject != subject(i) || len(a.Tiers) != 1 || (i%10 == 0) != (len(a.Overrides) > 0) {
			t.Fatalf("%d: %v, %t, %+v", i, err, ok, a)
		}
		if i%10 == 0 && a.Overrides[0].Quota.Limits[0].Quota != int64(i+1) {
			t.Fatalf("%d has the quota of another: %+v", i, a)
		}
	}
	for i := n; i < n+1000; i++ {
		if _, ok, err := f.Find(subject(i)); ok || err != nil {
			t.Fatalf("%d: %t, %v", i, ok, err)
		}
	}
	// What was asked for is in memory then: few sets of the cache have more than their room.
	s := tenant.NewSnapshotOver(new(tenant.Tiers), f)
	for range 2 {
		for i := range n {
			s.Standing(subject(i), limit.MicrosOf(noon))
		}
	}
	if read := s.Lookups().Misses; read < n || read > n+20 {
		t.Errorf("%d accounts were read of the file, want %d", read, n)
	}
}

// Whatever byte is another one, nobody gets the quota of somebody else: the file is refused,
// or the account is.
func TestDamagedFiles(t *testing.T) {
	f := many(t, 3000)
	whole, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "damaged")
	try := func(data []byte) (refused bool) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		g, err := Open(path)
		if err != nil {
			if !errors.Is(err, errFormat) {
				t.Errorf("%v", err)
			}
			return true
		}
		defer g.Close()
		for i := 0; i < 3000; i += 10 {
			a, ok, err := g.Find(subject(i))
			if err != nil {
				refused = true
			} else if !ok || a.Overrides[0].Quota.Limits[0].Quota != int64(i+1) {
				t.Fatalf("account %d of a damaged file: %t, %+v", i, ok, a)
			}
		}
		return refused
	}
	if try(whole) {
		t.Error("a whole file is refused")
	}
	for _, size := range []int{0, 1, len(magic), len(whole) / 2, len(whole) - 1} {
		if !try(whole[:size]) {
			t.Errorf("%d of %d bytes are taken", size, len(whole))
		}
	}
	refused := 0
	places := []int{}
	for at := 100; at < len(whole); at += 4999 {
		places = append(places, at)
	}
	for at := len(magic) + 4; at < len(magic)+400; at += 6 { // the first block
		places = append(places, at)
	}
	for _, at := range places {
		data := slices.Clone(whole)
		data[at] ^= 0x10
		if try(data) {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no damage is seen")
	}
}

// FuzzRecord holds that a record that is read is written alike, and that none is read
// beyond its data.
func FuzzRecord(f *testing.F) {
	f.Add((&record{where: inDictionary, word: 70_000}).append(nil))
	f.Add((&record{where: inRecord, text: []byte("text")}).append(nil))
	f.Add((&record{where: amongLarge, length: 5000, offset: 1 << 40, sum: 7}).append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, rest, err := readRecord(data)
		if err != nil {
			return
		}
		again, left, err := readRecord(append(r.append(nil), rest...))
		if err != nil || !reflect.DeepEqual(again, r) || len(left) != len(rest) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}

// FuzzOpen holds that no file, whatever its bytes, makes a panic or a long answer.
func FuzzOpen(f *testing.F) {
	small := many(f, 20)
	whole, err := os.ReadFile(small.Path())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-20])
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		g, err := Open(path)
		if err != nil {
			return
		}
		defer g.Close()
		for i := range 25 {
			_, _, _ = g.Find(subject(i))
		}
	})
}

func BenchmarkFind(b *testing.B) {
	f := many(b, 100_000)
	i := 0
	for b.Loop() {
		if _, _, err := f.Find(subject(i % 100_000)); err != nil {
			b.Fatal(err)
		}
		i += 7919
	}
}
