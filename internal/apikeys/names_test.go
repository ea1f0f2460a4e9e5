package apikeys

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/memstore"
)

func hasher(t testing.TB) *identity.Hasher {
	t.Helper()
	h, err := identity.NewHasher(identity.NewSecret("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func entries(pairs ...string) []descriptor.Entry {
	var all []descriptor.Entry
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, descriptor.Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return all
}

func requests(pairs ...string) []headgate.Request {
	return []headgate.Request{{Domain: "api", Descriptors: []headgate.Descriptor{{Entries: entries(pairs...), Hits: 1}}}}
}

func TestPut(t *testing.T) {
	h := hasher(t)
	name := h.APIKey("abc123")
	long := strings.Repeat("k", 2*maxRemembered)
	for _, test := range []struct {
		what    string
		entries []string
		got     []string
		want    []string
	}{
		{what: "a key", got: []string{"op", "x", "api_key", "abc123"}, want: []string{"op", "x", "api_key", name}},
		{what: "a name", got: []string{"api_key_hash", name}, want: []string{"api_key", name}},
		{what: "what is no name", got: []string{"api_key_hash", "abc123"}, want: []string{"api_key", name}},
		{what: "a key that looks like a name", got: []string{"api_key", name}, want: []string{"api_key", h.APIKey(name)}},
		{what: "a long key", got: []string{"api_key", long}, want: []string{"api_key", h.APIKey(long)}},
		{what: "no value", got: []string{"api_key", ""}, want: []string{"api_key", ""}},
		{what: "others", got: []string{"user", "abc123"}, want: []string{"user", "abc123"}},
		{what: "another entry", entries: []string{"x-api-key", "token"}, got: []string{"token", "abc123", "api_key", "abc123"}, want: []string{"api_key", name, "api_key", "abc123"}},
		{what: "none is a key", entries: []string{}, got: []string{"api_key", "abc123"}, want: []string{"api_key", "abc123"}},
	} {
		n := New(Options{Hasher: h, Entries: test.entries})
		for range 2 { // the second time from memory
			r := requests(test.got...)
			n.Put(r)
			if got := r[0].Descriptors[0].Entries; !reflect.DeepEqual(got, entries(test.want...)) {
				t.Errorf("%s: %v, want %v", test.what, got, test.want)
			}
		}
	}
	var none *Names
	r := requests("api_key", "abc123")
	none.Put(r)
	if r[0].Descriptors[0].Entries[0].Value != "abc123" || none.Names(entries("api_key", "abc123")[0]) != nil {
		t.Error("without names something is put")
	}
}

// TestRememberedNamesAreTrue: keys share places by the thousand, and the memory in which
// a way in has read a key holds another one soon.
func TestRememberedNamesAreTrue(t *testing.T) {
	n, h := New(Options{Hasher: hasher(t)}), hasher(t)
	for round := range 3 {
		for i := range 2 * rememberedKeys {
			key := fmt.Sprintf("key-%d", i)
			if got, want := n.nameOf(key), h.APIKey(key); got != want {
				t.Fatalf("round %d: %s is %s, want %s", round, key, got, want)
			}
		}
	}
}

func TestPutAllocatesNothing(t *testing.T) {
	n := New(Options{Hasher: hasher(t)})
	r := requests("op", "read", "api_key", "abc123")
	if got := alloctest.PerRun(200, func() {
		r[0].Descriptors[0].Entries[1].Value = "abc123"
		n.Put(r)
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// limiter limits each API key to one request, and abc123 to two.
func limiter(t *testing.T, n *Names) *headgate.Limiter {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{{Name: "rules.yaml", Data: []byte(`
domain: api
descriptors:
  - {key: api_key, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: api_key, value: abc123, name: mine, rate_limit: {unit: day, requests_per_unit: 2}}
`)}}, rulefile.Options{Names: n})
	if err != nil {
		t.Fatal(err)
	}
	s, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	l, err := headgate.New(headgate.Options{Store: s, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestBothWaysOfAskingCountInOneBucket: a key as it is, by its name, and as a way in has
// it that hashes keys itself; and the rule that names the key in full is found by all.
func TestBothWaysOfAskingCountInOneBucket(t *testing.T) {
	n := New(Options{Hasher: hasher(t)})
	l := limiter(t, n)
	raw := Doors{Names: n}.Door(l.Door(headgate.DoorOptions{Name: "grpc", Rights: headgate.Rights{Check: true}}))
	hashed := l.Door(headgate.DoorOptions{Name: "auth", Rights: headgate.Rights{Check: true}})
	name := hasher(t).APIKey("abc123")
	responses := make([]headgate.Response, 1)
	for i, ask := range []func() error{
		func() error { return raw.Check(t.Context(), requests("api_key", "abc123"), responses) },
		func() error { return hashed.Check(t.Context(), requests("api_key", name), responses) },
		func() error { return raw.Check(t.Context(), requests("api_key_hash", name), responses) },
		func() error { return raw.Check(t.Context(), requests("api_key", "abc123"), responses) },
	} {
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		v := responses[0].Verdicts[0]
		if v.Rule.Name != "mine" || responses[0].Allowed != (i < 2) {
			t.Errorf("call %d: %v by %s", i, responses[0].Allowed, v.Rule.ID)
		}
	}
}

// TestDoorAsksByNames: whatever is asked through a Door, no key goes further, and what is
// asked about beforehand is still there to be asked.
func TestDoorAsksByNames(t *testing.T) {
	n := New(Options{Hasher: hasher(t)})
	l := limiter(t, n)
	d := Doors{Names: n}.Door(l.Door(headgate.DoorOptions{Rights: headgate.Rights{Check: true, Reserve: true, Explain: true}}))
	r := requests("api_key", "abc123")
	if err := d.Permit(r); err != nil || r[0].Descriptors[0].Entries[0].Value != "abc123" {
		t.Errorf("permit: %v, %v", r, err)
	}
	name := hasher(t).APIKey("abc123")
	var resp headgate.Response
	booked, err := d.Reserve(t.Context(), &r[0], reservation.Options{}, &resp)
	if err != nil || r[0].Descriptors[0].Entries[0].Value != name {
		t.Fatalf("reserve: %v, %v", r, err)
	}
	if _, err := d.Commit(t.Context(), booked, reservation.Actual{}, &resp); err != nil {
		t.Fatal(err)
	}
	if v := resp.Verdicts[0]; v.Rule.Name != "mine" {
		t.Errorf("the commit is charged to %s", v.Rule.ID)
	}
	r = requests("api_key", "abc123")
	if err := d.CheckOnce(t.Context(), r, []string{"once"}, make([]headgate.Response, 1)); err != nil || r[0].Descriptors[0].Entries[0].Value != name {
		t.Errorf("a check with an id: %v, %v", r, err)
	}
	r = requests("api_key", "abc123")
	if err := d.DryRun(t.Context(), &r[0], new(headgate.Response), new(headgate.Response)); err != nil || r[0].Descriptors[0].Entries[0].Value != name {
		t.Errorf("a dry run by the door: %v, %v", r, err)
	}
	r = requests("api_key", "abc123")
	var before, after headgate.Response
	if err := n.Limiter(l).DryRun(context.Background(), &r[0], &before, &after); err != nil ||
		after.Verdicts[0].Rule.Name != "mine" || r[0].Descriptors[0].Entries[0].Value != name {
		t.Errorf("dry run: %v, %v", r, err)
	}
}

func BenchmarkPut(b *testing.B) {
	h := hasher(b)
	n := New(Options{Hasher: h})
	for _, key := range []string{"abc123", "sk_live_4eC39HqLyjWDarjtT1zdp7dc"} {
		r := requests("api_key", key)
		b.Run(fmt.Sprintf("remembered/%d", len(key)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r[0].Descriptors[0].Entries[0].Value = key
				n.Put(r)
			}
		})
		b.Run(fmt.Sprintf("hashed/%d", len(key)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.APIKey(key)
			}
		})
	}
}
