package audit

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate/internal/view"
)

func TestRecent(t *testing.T) {
	b := newBench(t, Options{Sample: 1, Remember: 8})
	for i := range 20 {
		b.ask(fmt.Sprintf("everyone:k%d", i))
	}
	b.settle()
	keys := func(f view.EventFilter, n int, cursor string) (list []string, next string) {
		t.Helper()
		page, err := b.Recent(f, n, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			list = append(list, e.Key[len("everyone:k"):])
		}
		return list, page.NextCursor
	}
	got, next := keys(view.EventFilter{}, 3, "")
	if !slices.Equal(got, []string{"19", "18", "17"}) || next == "" {
		t.Fatalf("%v, next %q", got, next)
	}
	b.ask("everyone:k20") // comes between, and 12 is forgotten
	b.settle()
	got, next = keys(view.EventFilter{}, 3, next)
	if !slices.Equal(got, []string{"16", "15", "14"}) || next == "" {
		t.Fatalf("%v, next %q", got, next)
	}
	last := next
	if got, next = keys(view.EventFilter{}, 3, next); !slices.Equal(got, []string{"13"}) || next != "" {
		t.Fatalf("%v, next %q", got, next)
	}
	for range 8 {
		b.ask("everyone:k21")
	}
	b.settle()
	if got, next = keys(view.EventFilter{}, 3, last); got != nil || next != "" {
		t.Errorf("before what is forgotten: %v, next %q", got, next)
	}
	if got, next = keys(view.EventFilter{}, 8, ""); len(got) != 8 || next != "" {
		t.Errorf("all: %v, next %q", got, next)
	}
	for _, cursor := range []string{"x", "12", "0191e0e0-0000-7000-8000-00000000000"} {
		if _, err := b.Recent(view.EventFilter{}, 1, cursor); !errors.Is(err, ErrCursor) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	b.close()
}

// What later decisions are recorded in is not the memory of those that are remembered.
func TestLaterDecisionsChangeNone(t *testing.T) {
	b := newBench(t, Options{Sample: 1, Remember: 64})
	var want []string
	for range 3 {
		for range 20 {
			key := fmt.Sprintf("everyone:k%d", len(want))
			b.ask(key)
			want = append(want, key)
		}
		b.settle()
	}
	page, err := b.Recent(view.EventFilter{}, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range slices.Backward(page.Events) {
		got = append(got, e.Key)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	b.close()
}

func TestFilters(t *testing.T) {
	b := newBench(t, Options{Sample: 1})
	for range 3 {
		b.ask("user:u")
	}
	b.ask("everyone:u")
	b.check(request(t, "e", "what:u"))
	b.settle()
	hash := testHasher(t).Hash("d", "user:u")
	for _, c := range []struct {
		f    view.EventFilter
		want int
	}{
		{view.EventFilter{}, 5},
		{view.EventFilter{Domain: "d"}, 4},
		{view.EventFilter{Rule: "d.user"}, 3},
		{view.EventFilter{Outcome: "over"}, 1},
		{view.EventFilter{Outcome: "allowed"}, 3},
		{view.EventFilter{Key: "user"}, 3},
		{view.EventFilter{Key: hash}, 3},
		{view.EventFilter{Key: hash, Outcome: "denied"}, 1},
		{view.EventFilter{Key: hash[1:]}, 0},
		{view.EventFilter{Since: 1}, 5},
		{view.EventFilter{Since: math.MaxInt64}, 0},
		{view.EventFilter{Until: math.MaxInt64}, 5},
		{view.EventFilter{Until: 1}, 0},
	} {
		follower, err := b.Follow(c.f)
		if err != nil {
			t.Fatal(err)
		}
		page, err := b.Recent(c.f, 0, "")
		if err != nil || len(page.Events) != c.want {
			t.Errorf("%+v: %d events, want %d, %v", c.f, len(page.Events), c.want, err)
		}
		b.followers.tell(page.Events)
		if got := len(follower.events); got != c.want {
			t.Errorf("%+v: %d followed, want %d", c.f, got, c.want)
		}
		follower.Close()
	}
	b.close()
}

func TestEventByID(t *testing.T) {
	b := newBench(t, Options{Sample: 1, Remember: 4})
	var ids []string
	for range 6 {
		ids = append(ids, b.ask("everyone:k").ID.String())
	}
	b.settle()
	for i, id := range ids {
		if e, ok := b.Event(id); ok != (i >= 2) || ok && e.EventID != id {
			t.Errorf("event %d: %v, %+v", i, ok, e)
		}
	}
	if _, ok := b.Event(""); ok {
		t.Error("an event without an ID")
	}
	b.close()
}

// Who has been told of a decision finds it, however many were decided since Run has
// looked.
func TestEventsAreFoundAtOnce(t *testing.T) {
	b := newBench(t, Options{Sample: 1})
	var last string
	for range 3*batchSize + 1 {
		last = b.ask("everyone:k").ID.String()
	}
	if _, ok := b.Event(last); !ok {
		t.Error("the event of the last decision is not found")
	}
	last = b.ask("everyone:k").ID.String()
	for range 2 * batchSize {
		b.ask("everyone:k")
	}
	page, err := b.Recent(view.EventFilter{}, 2*batchSize+1, "")
	if err != nil || len(page.Events) != 2*batchSize+1 || page.Events[2*batchSize].EventID != last {
		t.Errorf("%d events, %v", len(page.Events), err)
	}
	b.close()
}

// A decision that has its place among those that wait, and is not in it yet, hides none of
// those behind it.
func TestEventBehindOneThatIsLate(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that who yields lets the other go on
	b := newBench(t, Options{Sample: 1})
	b.ask("everyone:first")
	late := b.ring.take()
	at := b.ring.head.Add(1) - 1
	b.discarded.Add(1) // of first, which was taken out
	id := b.ask("everyone:k").ID.String()
	go func() {
		s := &b.ring.slots[at]
		s.record = late
		s.turn.Store(at + 1)
	}()
	if e, ok := b.Event(id); !ok || e.Key != "everyone:k" {
		t.Errorf("%t, %+v", ok, e)
	}
	b.close()
}

func TestFollowers(t *testing.T) {
	b := newBench(t, Options{Sample: 1})
	slow, err := b.Follow(view.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	const sent = 3*followerBuffer + 5
	for range sent {
		b.ask("everyone:k")
	}
	b.settle()
	got, lost := 0, uint64(0)
	for range followerBuffer {
		_, n, err := slow.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got++
		lost += n
	}
	if got+int(lost) != sent || lost == 0 {
		t.Errorf("%d events and %d lost, of %d", got, lost, sent)
	}
	b.ask("everyone:k")
	b.settle()
	b.close()
	if _, n, err := slow.Next(t.Context()); err != nil || n != 0 {
		t.Errorf("what waited at the end: %v, %d lost", err, n)
	}
	if _, _, err := slow.Next(t.Context()); err != ErrClosed {
		t.Errorf("past the end: %v", err)
	}
	slow.Close()
	slow.Close()
}

// Decisions are forgotten before their batch has been told to anybody.
func TestFollowersOfAShortMemory(t *testing.T) {
	b := newBench(t, Options{Sample: 1, Remember: 2})
	follower, err := b.Follow(view.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		b.ask(fmt.Sprintf("everyone:k%d", i))
	}
	b.settle()
	b.ask("everyone:after") // may use the memory of one that is forgotten
	for i := range 20 {
		if e, lost, err := follower.Next(t.Context()); err != nil || lost != 0 || e.Key != fmt.Sprintf("everyone:k%d", i) {
			t.Errorf("event %d: key %q, %d lost, %v", i, e.Key, lost, err)
		}
	}
	b.close()
}

// keysOf is a Sink that keeps the keys of events.
type keysOf struct {
	discard
	keys []string
}

func (k *keysOf) Write(b Batch) {
	k.discard.Write(b)
	for _, e := range b.Events {
		k.keys = append(k.keys, e.Key)
	}
}

// Sinks get all events where nobody follows, and memory has room for fewer than a batch.
func TestSinksOfAShortMemory(t *testing.T) {
	var sink keysOf
	b := newBench(t, Options{Sample: 1, Remember: 2, PlainKeys: true, Sinks: []Sink{&sink}})
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprintf("everyone:k%d", i))
		b.ask(want[i])
	}
	b.settle()
	if diff := cmp.Diff(want, sink.keys); diff != "" {
		t.Error(diff)
	}
	b.close()
}

func TestTooManyFollowers(t *testing.T) {
	b := newBench(t, Options{})
	var all []*Follower
	for range maxFollowers {
		f, err := b.Follow(view.EventFilter{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	if _, err := b.Follow(view.EventFilter{}); err != ErrTooManyFollowers {
		t.Errorf("one more: %v", err)
	}
	all[rand.IntN(len(all))].Close()
	if _, err := b.Follow(view.EventFilter{}); err != nil {
		t.Errorf("in place of one that went: %v", err)
	}
	b.close()
}

func TestRedact(t *testing.T) {
	b := newBench(t, Options{})
	e := view.Event{Domain: "d", Key: "user:u", ClientIP: "203.0.113.77", UserAgent: "a"}
	want := view.Event{Domain: "d", Key: testHasher(t).Hash("d", "user:u"), KeyHashed: true, ClientIP: "203.0.113.0/24", UserAgent: "a"}
	got := b.Redact(e)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, b.Redact(got)); diff != "" {
		t.Errorf("twice: %s", diff)
	}
	for address, want := range map[string]string{
		"": "", "2001:db8:1:2:3:4:5:6": "2001:db8:1::/48", "::ffff:203.0.113.7": "203.0.113.0/24", "fe80::1%eth0": "fe80::/48", "somebody": "", "::1": "::/48",
	} {
		if got := b.Redact(view.Event{ClientIP: address}).ClientIP; got != want {
			t.Errorf("%q becomes %q, want %q", address, got, want)
		}
	}
	b.close()
}
