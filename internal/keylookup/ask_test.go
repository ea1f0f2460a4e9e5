package keylookup

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// still is a Lookup that asks when it is told to, and whose clock is moved by hand.
func still(t *testing.T, address string) (l *Lookup, advance func(time.Duration)) {
	t.Helper()
	l, err := New(address + "/keys/{hash}?secret=hush")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1e9, 0)
	l.now = func() time.Time { return now }
	return l, func(d time.Duration) { now = now.Add(d) }
}

// TestKeyIsTakenBack: a key is asked about once as long as its answer counts, is known through a
// failure, after which it is asked about soon, and is not from when the service says so.
func TestKeyIsTakenBack(t *testing.T) {
	s := newService(t)
	s.status.Store("/keys/a", http.StatusOK)
	l, advance := still(t, s.URL)
	for range 2 {
		l.ask(t.Context(), "a")
	}
	if !l.Known("a") || s.asked.Load() != 1 {
		t.Errorf("known %t, asked %d times", l.Known("a"), s.asked.Load())
	}
	s.status.Store("/keys/a", http.StatusBadGateway)
	advance(knownFor)
	for range 2 {
		l.ask(t.Context(), "a")
	}
	if !l.Known("a") || s.asked.Load() != 2 || len(l.unknown) != 0 {
		t.Errorf("after a failure: known %t, asked %d times, %d unknown", l.Known("a"), s.asked.Load(), len(l.unknown))
	}
	s.status.Store("/keys/a", http.StatusGone)
	advance(unansweredFor)
	if l.ask(t.Context(), "a"); l.Known("a") || l.Unsure("a") || len(l.known) != 0 {
		t.Errorf("taken back: known %t, unsure %t", l.Known("a"), l.Unsure("a"))
	}
	s.status.Store("/keys/a", http.StatusOK)
	advance(unknownFor)
	if l.ask(t.Context(), "a"); !l.Known("a") || len(l.unknown) != 0 {
		t.Errorf("given again: known %t, %d unknown", l.Known("a"), len(l.unknown))
	}
}

// TestRedirectsAreNoAnswer: a service that sends elsewhere has not answered, and elsewhere nobody
// is asked.
func TestRedirectsAreNoAnswer(t *testing.T) {
	elsewhere := newService(t)
	elsewhere.status.Store("/login", http.StatusOK)
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/login", http.StatusFound))
	defer s.Close()
	l, _ := still(t, s.URL)
	if l.ask(t.Context(), "a"); l.Known("a") || !l.Unsure("a") || elsewhere.asked.Load() != 0 {
		t.Errorf("known %t, unsure %t, asked elsewhere %d times", l.Known("a"), l.Unsure("a"), elsewhere.asked.Load())
	}
}

// TestTroubleHoldsNoAddress: what is told of a service that is gone does not hold its address, which
// may hold a secret; and that this process ends is no trouble.
func TestTroubleHoldsNoAddress(t *testing.T) {
	s := newService(t)
	s.Close()
	l, _ := still(t, s.URL)
	var told []error
	l.OnTrouble = func(err error) { told = append(told, err) }
	ctx, end := context.WithCancel(t.Context())
	end()
	if l.ask(ctx, "a"); len(told) != 0 || l.Counts() != (Counts{}) {
		t.Errorf("at the end: told %v, %+v", told, l.Counts())
	}
	if l.ask(t.Context(), "a"); len(told) != 1 || told[0] == nil || strings.Contains(told[0].Error(), "hush") || l.Counts().Unanswered != 1 {
		t.Errorf("told %v, %+v", told, l.Counts())
	}
}
