package descriptor

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/alloctest"
)

// parts is everything that a key is made of.
type parts struct {
	kind    Kind
	domain  string
	entries []Entry
	pattern []bool
	ordinal int
}

func (p parts) key() []byte {
	dst := AppendKeyStart(nil, p.kind, p.domain)
	for i, e := range p.entries {
		if p.pattern[i] {
			dst = AppendKeyPattern(dst, e.Key, e.Value)
		} else {
			dst = AppendKeyEntry(dst, e)
		}
	}
	return AppendKeyEnd(dst, p.ordinal)
}

func (p parts) equal(q parts) bool {
	return p.kind == q.kind && p.domain == q.domain && p.ordinal == q.ordinal &&
		slices.Equal(p.entries, q.entries) && slices.Equal(p.pattern, q.pattern)
}

// text draws strings that are likely to be confused: few letters, those of the
// encoding among them, and lengths around the bound of hashing.
func text() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		s := rapid.StringOfN(rapid.SampledFrom([]rune{'a', '_', 0, 1, 2}), 0, 4, -1).Draw(t, "text")
		if rapid.Bool().Draw(t, "long") {
			s += strings.Repeat("x", MaxInline-rapid.IntRange(0, 5).Draw(t, "short of"))
		}
		return s
	})
}

func drawParts(t *rapid.T) parts {
	p := parts{
		kind:    Kind(rapid.IntRange(1, int(KindReservation)).Draw(t, "kind")),
		domain:  text().Draw(t, "domain"),
		ordinal: rapid.IntRange(0, 300).Draw(t, "ordinal"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "entries") {
		p.entries = append(p.entries, Entry{text().Draw(t, "key"), text().Draw(t, "value")})
		p.pattern = append(p.pattern, rapid.Bool().Draw(t, "pattern"))
	}
	return p
}

func TestKeyIsInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := drawParts(t), drawParts(t)
		if p.equal(q) != bytes.Equal(p.key(), q.key()) {
			t.Fatalf("%+v and %+v: equal parts %t, keys\n%x\n%x", p, q, p.equal(q), p.key(), q.key())
		}
	})
}

func TestKeyRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParts(t)
		k, err := DecodeKey(p.key())
		if err != nil {
			t.Fatal(err)
		}
		if k.Kind != p.kind || k.Domain != plainOrHashed(p.domain) || k.Ordinal != uint64(p.ordinal) || len(k.Entries) != len(p.entries) {
			t.Fatalf("decoded %+v from %+v", k, p)
		}
		for i, e := range p.entries {
			want := KeyEntry{plainOrHashed(e.Key), plainOrHashed(e.Value), p.pattern[i]}
			if k.Entries[i] != want {
				t.Fatalf("entry %d: decoded %+v, want %+v", i, k.Entries[i], want)
			}
		}
	})
}

func plainOrHashed(s string) KeyString {
	if len(s) <= MaxInline {
		return KeyString{Text: s}
	}
	sum := sha256.Sum256([]byte(s))
	return KeyString{Text: string(sum[:]), Hashed: true}
}

// The key of a reference is that of its bucket but for the kind, which no other key has.
func TestReferenceKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParts(t)
		got := AppendReferenceKey([]byte("before"), p.key())
		p.kind |= KindReference
		if want := append([]byte("before"), p.key()...); !bytes.Equal(got, want) {
			t.Fatalf("%x, want %x", got, want)
		}
	})
	if KindPool >= KindReference {
		t.Errorf("kind %d is taken for that of a reference", KindPool)
	}
}

func TestKeysThatOthersConfuse(t *testing.T) {
	sum := sha256.Sum256([]byte(strings.Repeat("v", MaxInline+1)))
	all := [][]Entry{
		{},
		{{"a", "b_c"}},
		{{"a_b", "c"}},
		{{"a", "b"}, {"c", ""}},
		{{"a", ""}, {"b", "c"}},
		{{"a", "b"}},
		{{"b", "a"}},
		{{"a", "b"}, {"a", "b"}},
		{{"a", strings.Repeat("v", MaxInline)}},
		{{"a", strings.Repeat("v", MaxInline+1)}},
		{{"a", strings.Repeat("v", MaxInline+2)}},
		{{"a", string(sum[:])}},
		{{"a", "\xff" + string(sum[:])}},
		{{"a", "{tag}"}},
		{{"a", "\x00"}},
	}
	seen := make(map[string][]Entry)
	for _, entries := range all {
		for _, kind := range []Kind{KindRule, KindAlways, KindCaller, KindTenant, KindTopUp, KindPool} {
			key := string(AppendKey(nil, kind, "domain", entries, 0))
			if other, ok := seen[key]; ok {
				t.Errorf("%v and %v (kind %d) share the key %x", entries, other, kind, key)
			}
			seen[key] = entries
		}
	}
}

func TestKeyIsBounded(t *testing.T) {
	entries := make([]Entry, MaxEntries)
	for i := range entries {
		entries[i] = Entry{strings.Repeat("k", MaxInline), strings.Repeat("v", MaxInline)}
	}
	longest := AppendKey(nil, KindRule, strings.Repeat("d", MaxInline), entries, 1<<40)
	if len(longest) > MaxKeyLength {
		t.Errorf("a key has %d bytes, more than %d", len(longest), MaxKeyLength)
	}
	entries[0].Value = strings.Repeat("v", MaxEntryLength)
	if hashed := AppendKey(nil, KindRule, strings.Repeat("d", MaxInline), entries, 1<<40); len(hashed) >= len(longest) {
		t.Errorf("a hashed value makes a key of %d bytes, the longest plain one has %d", len(hashed), len(longest))
	}
}

func TestDecodeKeyRefuses(t *testing.T) {
	whole := AppendKey(nil, KindRule, "domain", []Entry{{"key", "value"}}, 200)
	for n := range whole {
		if k, err := DecodeKey(whole[:n]); !errors.Is(err, ErrKey) {
			t.Errorf("cut at %d: %+v, %v", n, k, err)
		}
	}
	for name, data := range map[string][]byte{
		"more after the end":  append(bytes.Clone(whole), 0),
		"another version":     append([]byte{2}, whole[1:]...),
		"unknown tag":         {1, 1, 0, 9},
		"length out of range": {1, 1, MaxInline + 1},
		"padded ordinal":      {1, 1, 0, 0, 0x80, 0},
	} {
		if k, err := DecodeKey(data); !errors.Is(err, ErrKey) {
			t.Errorf("%s: %+v, %v", name, k, err)
		}
	}
}

func TestAppendKeyDoesNotAllocate(t *testing.T) {
	entries := []Entry{{"api_key", "abc"}, {"path", strings.Repeat("long", 100)}}
	dst := make([]byte, 0, MaxKeyLength)
	if n := alloctest.PerRun(100, func() { dst = AppendKey(dst[:0], KindRule, "domain", entries, 1) }); n != 0 {
		t.Errorf("AppendKey allocates %v times", n)
	}
}

// FuzzDecodeKey checks that whatever decodes has one encoding only: no two
// byte strings mean the same key.
func FuzzDecodeKey(f *testing.F) {
	f.Add(AppendKey(nil, KindRule, "domain", []Entry{{"key", "value"}, {"k", strings.Repeat("v", 200)}}, 3))
	f.Add(AppendKeyEnd(AppendKeyPattern(AppendKeyStart(nil, KindAlways, ""), "k", "value:a*"), 1<<20))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := DecodeKey(data)
		if err != nil {
			return
		}
		if again := encode(k); !bytes.Equal(again, data) {
			t.Errorf("%x decodes to %+v, which encodes to %x", data, k, again)
		}
	})
}

// encode writes a decoded key, hashes as they are.
func encode(k Key) []byte {
	dst := []byte{keyVersion, byte(k.Kind)}
	appendPart := func(s KeyString) {
		if s.Hashed {
			dst = append(dst, hashedLength)
		} else {
			dst = append(dst, byte(len(s.Text)))
		}
		dst = append(dst, s.Text...)
	}
	appendPart(k.Domain)
	for _, e := range k.Entries {
		tag := byte(tagEntry)
		if e.Pattern {
			tag = tagPattern
		}
		dst = append(dst, tag)
		appendPart(e.Key)
		appendPart(e.Value)
	}
	return AppendKeyEnd(dst, int(k.Ordinal))
}

// FuzzKeyIsInjective splits its input into two descriptors in every way.
func FuzzKeyIsInjective(f *testing.F) {
	f.Add("a", "b_c", "a_b", "c")
	f.Add("a", "", "", "a")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string) {
		one, two := []Entry{{k1, v1}}, []Entry{{k2, v2}}
		both, swapped := []Entry{{k1, v1}, {k2, v2}}, []Entry{{k2, v2}, {k1, v1}}
		for _, pair := range [][2][]Entry{{one, two}, {both, swapped}, {one, both}, {{{k1, v1 + k2}}, {{k1 + v1, k2}}}} {
			a, b := AppendKey(nil, KindRule, "d", pair[0], 0), AppendKey(nil, KindRule, "d", pair[1], 0)
			if slices.Equal(pair[0], pair[1]) != bytes.Equal(a, b) {
				t.Errorf("%q and %q: keys %x and %x", pair[0], pair[1], a, b)
			}
		}
	})
}
