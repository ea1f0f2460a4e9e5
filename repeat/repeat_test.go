package repeat_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/trace"
	"github.com/headgate/headgate/verdict"
)

var print1, print2 = repeat.FingerprintOf([]byte("1")), repeat.FingerprintOf([]byte("2"))

// specs has one limit of each algorithm, with all that it may have.
func specs(t testing.TB) []limit.Spec {
	month, err := limit.NewCalendar(limit.CalendarMonth, "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return []limit.Spec{
		{Algorithm: limit.SlidingWindow, Quota: 0, Period: time.Minute, CountDenied: true},
		{Algorithm: limit.FixedWindow, Quota: 1e15, Calendar: month},
		{Algorithm: limit.SubWindows, Quota: 7, Period: time.Hour, SubWindows: 6, Strict: true},
		{Algorithm: limit.SlidingLog, Quota: 7, Period: time.Hour},
		{Algorithm: limit.TokenBucket, Quota: 7, Period: time.Second, Burst: 9, MaxDebt: 3},
		{Algorithm: limit.LeakyBucket, Quota: 7, Period: time.Second},
		{Algorithm: limit.LeakyQueue, Quota: 7, Period: time.Second, MaxDelay: time.Minute, MaxQueue: 5},
		{Algorithm: limit.GCRA, Quota: 7, Period: 3 * time.Microsecond, Carry: limit.CarryShare},
		{Algorithm: limit.Concurrency, Quota: 20, Period: time.Minute},
		{Algorithm: limit.Ban, Quota: 3, Period: time.Minute, BanFor: time.Hour},
	}
}

func answerOf(t testing.TB) repeat.Answer {
	a := repeat.Answer{
		Allowed: true, Lasts: time.Minute, Decision: trace.NewDecisionID(time.Unix(1, 0)),
		Hold: limit.MaxHold, HoldFor: 3 * time.Second,
	}
	for i, s := range specs(t) {
		l := limit.Must(s)
		spec := repeat.AppendSpec(nil, &l.Spec)
		a.Limits = append(a.Limits, repeat.Limit{
			Descriptor: i, Rule: "d.rule", Name: strings.Repeat("n", i), Role: uint8(i), Source: 2, Effect: verdict.RuleShadow,
			By: verdict.ByLocalShare, Degraded: store.Timeout, Hits: int64(i), Spec: spec,
			Decision: limit.Decision{
				Allowed: i%2 == 0, Never: i%3 == 0, Limit: 100, Remaining: 7,
				ResetAfter: 3 * time.Second, RetryAfter: time.Microsecond, Delay: time.Millisecond,
			},
		})
	}
	a.Limits = append(a.Limits, repeat.Limit{Decision: limit.Decision{Allowed: true}})
	return a
}

// What was written is read, and the limits in it are limits.
func TestAnswer(t *testing.T) {
	a := answerOf(t)
	text := a.Append(nil, print1)
	var got repeat.Answer
	if err := got.Read(text); err != nil {
		t.Fatal(err)
	}
	for i, want := range specs(t) {
		s, err := repeat.ReadSpec(got.Limits[i].Spec)
		if err != nil {
			t.Fatalf("limit %d: %v", i, err)
		}
		l, err := limit.New(s)
		if err != nil {
			t.Fatalf("limit %d: %v", i, err)
		}
		if again := repeat.AppendSpec(nil, &l.Spec); string(again) != string(got.Limits[i].Spec) {
			t.Errorf("limit %d: %+v", i, s)
		}
		if c := s.Calendar; (c != nil) != (want.Calendar != nil) || c != nil && (c.Unit != want.Calendar.Unit || c.Zone != want.Calendar.Zone) {
			t.Errorf("limit %d has the calendar %+v", i, c)
		}
		s.Calendar, want.Calendar = nil, nil
		if want = limit.Must(specs(t)[i]).Spec; want.Algorithm != limit.TokenBucket && want.Algorithm != limit.GCRA {
			want.Burst = 0
		}
		if want.Calendar = nil; s != want {
			t.Errorf("limit %d is %+v, want %+v", i, s, want)
		}
	}
	got.Limits[len(got.Limits)-1].Spec = nil
	if !reflect.DeepEqual(got, a) {
		t.Errorf("%+v\nwant %+v", got, a)
	}
	for n := range text {
		if err := got.Read(text[:n]); !errors.Is(err, repeat.ErrMalformed) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
	if err := got.Read(append(text, 0)); !errors.Is(err, repeat.ErrMalformed) {
		t.Errorf("a byte more: %v", err)
	}
}

func TestStateOf(t *testing.T) {
	claim := repeat.AppendClaim(nil, print1)
	a := answerOf(t)
	answer := a.Append(nil, print1)
	if string(claim) == string(repeat.AppendClaim(nil, print1)) {
		t.Error("two claims are equal")
	}
	for _, c := range []struct {
		text  []byte
		print repeat.Fingerprint
		want  repeat.State
	}{
		{claim, print1, repeat.Claimed}, {answer, print1, repeat.Answered},
		{claim, print2, repeat.Conflicting}, {answer, print2, repeat.Conflicting},
		{nil, print1, repeat.Foreign}, {claim[:len(claim)-1], print1, repeat.Foreign}, {[]byte("something else that is long"), print1, repeat.Foreign},
	} {
		if got := repeat.StateOf(c.text, c.print); got != c.want {
			t.Errorf("%.20q: %d, want %d", c.text, got, c.want)
		}
	}
}

// Times name the same instants later; who was denied still is.
func TestLater(t *testing.T) {
	a := repeat.Answer{Limits: []repeat.Limit{
		{Decision: limit.Decision{ResetAfter: 5 * time.Second, RetryAfter: 3 * time.Second}},
		{Decision: limit.Decision{Allowed: true, ResetAfter: time.Second, Delay: 2 * time.Second}},
	}}
	a.Later(-time.Hour)
	a.Later(2 * time.Second)
	if d := a.Limits[0].Decision; d.ResetAfter != 3*time.Second || d.RetryAfter != time.Second {
		t.Errorf("%+v", d)
	}
	if d := a.Limits[1].Decision; d.ResetAfter != 0 || d.RetryAfter != 0 || d.Delay != 0 {
		t.Errorf("%+v", d)
	}
	if a.Later(time.Hour); a.Limits[0].Decision.RetryAfter != time.Microsecond {
		t.Errorf("%+v", a.Limits[0].Decision)
	}
}

// No two checks share a key: not by the id, the domain, or entries that look alike when
// they are joined.
func TestKeys(t *testing.T) {
	entry := func(words ...string) (entries []descriptor.Entry) {
		for i := 0; i < len(words); i += 2 {
			entries = append(entries, descriptor.Entry{Key: words[i], Value: words[i+1]})
		}
		return entries
	}
	seen := map[string]string{}
	for name, c := range map[string]struct {
		domain, id string
		about      [][]descriptor.Entry
	}{
		"plain":           {"d", "1", [][]descriptor.Entry{entry("a", "b")}},
		"other id":        {"d", "2", [][]descriptor.Entry{entry("a", "b")}},
		"other domain":    {"e", "1", [][]descriptor.Entry{entry("a", "b")}},
		"other value":     {"d", "1", [][]descriptor.Entry{entry("a", "c")}},
		"moved":           {"d", "1", [][]descriptor.Entry{entry("ab", "")}},
		"two entries":     {"d", "1", [][]descriptor.Entry{entry("a", "b", "c", "d")}},
		"two descriptors": {"d", "1", [][]descriptor.Entry{entry("a", "b"), entry("c", "d")}},
		"none":            {"d", "1", nil},
		"one empty":       {"d", "1", [][]descriptor.Entry{nil}},
	} {
		var about []byte
		for _, entries := range c.about {
			about = repeat.AppendEntries(about, entries)
		}
		key := string(repeat.AppendKey(nil, c.domain, c.id, about))
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s share a key", name, other)
		}
		if len(key) > store.MaxSwapKey {
			t.Errorf("%s: a key of %d bytes", name, len(key))
		}
		seen[key] = name
	}
	long := strings.Repeat("x", repeat.MaxID)
	if key := repeat.AppendKey(nil, long, long, nil); len(key) > store.MaxSwapKey {
		t.Errorf("a long id and domain make a key of %d bytes", len(key))
	}
	if repeat.ValidateID(long) != nil || !errors.Is(repeat.ValidateID(long+"x"), repeat.ErrID) {
		t.Error("the length of ids has another bound")
	}
}

// What is read is written again as it was.
func FuzzAnswer(f *testing.F) {
	a := answerOf(f)
	f.Add(a.Append(nil, print1))
	f.Add((&repeat.Answer{}).Append(nil, print2))
	f.Add(repeat.AppendClaim(nil, print1))
	for _, s := range specs(f) {
		f.Add(repeat.AppendSpec(nil, &s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := repeat.ReadSpec(text); err == nil {
			if again := repeat.AppendSpec(nil, &s); len(again) > len(text)+16 {
				t.Errorf("%+v is %x, and was %x", s, again, text)
			}
		}
		var a repeat.Answer
		if err := a.Read(text); err != nil {
			if !errors.Is(err, repeat.ErrMalformed) {
				t.Fatalf("%v", err)
			}
			return
		}
		var print repeat.Fingerprint
		copy(print[:], text[1:])
		again := a.Append(nil, print)
		var b repeat.Answer
		if err := b.Read(again); err != nil || len(b.Limits) != len(a.Limits) || b.Allowed != a.Allowed {
			t.Errorf("%v: %+v, then %+v", err, a, b)
		}
	})
}
