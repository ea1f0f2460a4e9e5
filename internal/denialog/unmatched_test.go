package denialog

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/switches"
)

const unmatchedRules = `
domain: d
match: leaf
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 2}}
- key: tenant
  descriptors: [{key: route, value: /secret, rate_limit: {unit: hour, requests_per_unit: 2}}]
`

// watched is a limiter that an Unmatched watches, and what that writes.
type watched struct {
	t *testing.T
	*headgate.Limiter
	*Unmatched
	*output
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	set := load(t, unmatchedRules)
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := new(output)
	w := &watched{t: t, Unmatched: NewUnmatched(slog.New(slog.NewJSONHandler(o, nil))), output: o}
	w.Unmatched.SetRules(set)
	w.Limiter, err = headgate.New(headgate.Options{Store: buckets, Rules: set, Observer: w.Unmatched})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { buckets.Close() })
	return w
}

// asks asks by a front in a domain, for descriptors in their text form.
func (w *watched) asks(front, domain string, op store.Op, texts ...string) {
	w.t.Helper()
	var descriptors []headgate.Descriptor
	for _, text := range texts {
		entries, err := descriptor.Parse(text)
		if err != nil {
			w.t.Fatal(err)
		}
		descriptors = append(descriptors, headgate.Descriptor{Entries: entries, Hits: 1, Op: op})
	}
	door := w.Door(headgate.DoorOptions{Name: front, Rights: headgate.Rights{Check: true}})
	if err := door.Check(w.t.Context(), []headgate.Request{{Domain: domain, Descriptors: descriptors}}, make([]headgate.Response, 1)); err != nil {
		w.t.Fatal(err)
	}
}

// What no rule limits gets a line a minute for each front, domain and kind, with what it
// takes to put it right and no values.
func TestUnmatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		for range 5 {
			w.asks("grpc", "d", store.Hit, "user:u") // limited: no line
			w.asks("grpc", "d", store.Hit, "tenant:topsecret,route:/other", "usr:topsecret")
			w.asks("auth", "d", store.Hit, "tenant:topsecret,route:/other", "usr:topsecret")
			w.asks("auth", "typo", store.Charge, "user:topsecret")
			w.asks("auth", "d", store.Release, "nothing:held")
		}
		lines := w.lines(t)
		if len(lines) != 3 {
			t.Fatalf("%d lines, want 3: %v", len(lines), lines)
		}
		for i, want := range []map[string]any{
			{"level": "INFO", "kind": "unmatched", "front": "grpc", "domain": "d", "keys": "tenant, route | usr", "rules_want": "user | tenant, route=...", "requests": 1.},
			{"level": "INFO", "kind": "unmatched", "front": "auth", "domain": "d", "keys": "tenant, route | usr", "rules_want": "user | tenant, route=...", "requests": 1.},
			{"level": "WARN", "kind": "unknown_domain", "front": "auth", "domain": "typo", "keys": "user", "domains": "d", "requests": 1.},
		} {
			for name, value := range want {
				if lines[i][name] != value {
					t.Errorf("line %d: %s is %v, want %v", i, name, lines[i][name], value)
				}
			}
			if text := fmt.Sprint(lines[i]); strings.Contains(text, "secret") {
				t.Errorf("line %d tells a value: %s", i, text)
			}
		}
		time.Sleep(time.Minute - time.Nanosecond)
		w.asks("auth", "typo", store.Hit, "user:u")
		if text := w.take(); text != "" {
			t.Errorf("before the minute is over: %s", text)
		}
		time.Sleep(time.Nanosecond)
		w.asks("auth", "typo", store.Hit, "user:u")
		if lines := w.lines(t); len(lines) != 1 || lines[0]["requests"] != 6. {
			t.Errorf("after a minute: %v, want one line with 6 requests", lines)
		}
		// A reload names the domain: it is told of no more.
		w.Unmatched.SetRules(nil)
		w.Limiter.SetRules(nil)
		w.asks("grpc", "d", store.Hit, "user:u")
		if lines := w.lines(t); len(lines) != 1 || lines[0]["kind"] != "unknown_domain" || lines[0]["domains"] != "" {
			t.Errorf("without rules: %v", lines)
		}
	})
}

// A rule that is switched off applies all the same: its requests are no riddle.
func TestUnmatchedIsNotSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		set, err := switches.NewSet([]switches.Switch{{Target: switches.Target{Rule: "d.user"}, State: switches.Off}})
		if err != nil {
			t.Fatal(err)
		}
		w.SetSwitches(set)
		for range 3 {
			w.asks("grpc", "d", store.Hit, "user:u")
		}
		if text := w.take(); text != "" {
			t.Errorf("told of what is switched off: %s", text)
		}
		w.asks("grpc", "d", store.Hit, "usr:u")
		if lines := w.lines(t); len(lines) != 1 || lines[0]["requests"] != 1. {
			t.Errorf("%v, want one line with one request", lines)
		}
	})
}

// Callers name domains, so what is remembered of them is bounded, and what is beyond it
// shares a line. What was quiet for a minute makes room.
func TestUnmatchedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		for i := range 10 * maxKinds {
			w.asks("grpc", fmt.Sprintf("%d-%s", i, strings.Repeat("x", 10_000)), store.Hit, "user:u")
		}
		if n := len(w.lines(t)); n != maxKinds+1 {
			t.Errorf("%d lines, want %d", n, maxKinds+1)
		}
		if n := len(w.Unmatched.mu.kinds); n != maxKinds+1 {
			t.Errorf("%d kinds remembered, want %d", n, maxKinds+1)
		}
		for k := range w.Unmatched.mu.kinds {
			if len(k.domain) > maxField {
				t.Errorf("a domain of %d bytes is remembered", len(k.domain))
			}
		}
		time.Sleep(time.Minute)
		w.asks("grpc", "typo", store.Hit, "user:u")
		if lines := w.lines(t); len(lines) != 1 || lines[0]["domain"] != "typo" || len(w.Unmatched.mu.kinds) != 1 {
			t.Errorf("%v, %d kinds", lines, len(w.Unmatched.mu.kinds))
		}
	})
}

// Nobody forges a line, or makes one endless, by a domain or a key.
func TestUnmatchedLinesAreClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		hostile := "\x1b[31m\nlevel=ERROR\u202e" + strings.Repeat("k", 1<<12)
		entries := make([]descriptor.Entry, descriptor.MaxEntries)
		for i := range entries {
			entries[i] = descriptor.Entry{Key: hostile, Value: "v"}
		}
		all := make([]headgate.Descriptor, descriptor.MaxDescriptors)
		for i := range all {
			all[i] = headgate.Descriptor{Entries: entries, Hits: 1}
		}
		if err := w.Limiter.Check(t.Context(), []headgate.Request{{Domain: hostile, Descriptors: all}}, make([]headgate.Response, 1)); err != nil {
			t.Fatal(err)
		}
		text := w.take()
		if strings.Count(text, "\n") != 1 || strings.ContainsAny(text, "\x1b\u202e") || len(text) > 4096 {
			t.Errorf("%d bytes: %.300q", len(text), text)
		}
	})
}

func TestUnmatchedAllocatesNothing(t *testing.T) {
	w := newWatched(t)
	for name, domain := range map[string]string{"unknown": "typo", "unmatched": "d"} {
		req := &headgate.Request{Domain: domain, Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "usr", Value: "u"}}, Hits: 1}}}
		resp := &headgate.Response{Allowed: true, DomainKnown: domain == "d"}
		if n := alloctest.PerRun(200, func() { w.Decided(req, resp, headgate.NotTimed) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
