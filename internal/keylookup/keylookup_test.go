package keylookup

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
)

// service answers which keys are known.
type service struct {
	*httptest.Server
	asked  atomic.Int64
	status sync.Map // of paths
}

func newService(t *testing.T) *service {
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		status, ok := s.status.Load(r.URL.Path)
		if !ok {
			status = http.StatusNotFound
		}
		w.WriteHeader(status.(int))
	}))
	t.Cleanup(s.Close)
	return s
}

// looking is a Lookup that runs.
func looking(t *testing.T, s *service) *Lookup {
	t.Helper()
	l, err := New(s.URL + "/keys/{hash}?secret=hush")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return l
}

// TestLookup: the first look says that nobody can say; then the answer counts for its
// time, and without another one a known key stays known for an hour.
func TestLookup(t *testing.T) {
	s := newService(t)
	s.status.Store("/keys/good", http.StatusNoContent)
	l, advance := still(t, s.URL)
	// look is what is said of a key before and after those that wait were asked about.
	look := func(name string) (before, after string) {
		before = standingOf(l, name)
		for len(l.asks) > 0 {
			l.ask(t.Context(), <-l.asks)
		}
		return before, standingOf(l, name)
	}
	expect := func(name, before, after string) {
		t.Helper()
		if b, a := look(name); b != before || a != after {
			t.Errorf("%s is %s, then %s, not %s, then %s", name, b, a, before, after)
		}
	}
	expect("good", unsure, known)
	expect("bad", unsure, unknown)
	asked := s.asked.Load()
	for range 100 {
		expect("good", known, known)
		expect("bad", unknown, unknown)
	}
	if got := s.asked.Load(); got != asked {
		t.Errorf("asked %d times more", got-asked)
	}
	s.status.Store("/keys/bad", http.StatusOK)
	advance(unknownFor)
	expect("bad", unsure, known)

	// It does not answer any more.
	for _, key := range []string{"good", "bad", "new"} {
		s.status.Store("/keys/"+key, http.StatusInternalServerError)
	}
	advance(knownFor)
	expect("good", known, known)
	if got := l.Counts().Unanswered; got != 1 {
		t.Errorf("%d questions without an answer", got)
	}
	expect("new", unsure, unsure)
	if got := l.Counts().Unanswered; got != 2 {
		t.Errorf("%d questions without an answer", got)
	}
	advance(keptFor)
	expect("good", unsure, unsure)
	s.status.Store("/keys/good", http.StatusGone)
	advance(unansweredFor)
	expect("good", unsure, unknown)
}

// What is said of a key.
const known, unknown, unsure = "known", "unknown", "not sure"

func standingOf(l *Lookup, name string) string {
	switch k, u := l.Known(name), l.Unsure(name); {
	case k:
		return known
	case u:
		return unsure
	}
	return unknown
}

// TestLookupIsBounded: keys without end take no memory without end, and push out none
// that is known.
func TestLookupIsBounded(t *testing.T) {
	l, err := New("https://keys.internal/{hash}")
	if err != nil {
		t.Fatal(err)
	}
	remember(l.known, "good", looked{until: l.now().Add(time.Hour), ask: l.now().Add(time.Hour), said: true})
	for i := range 2 * maxLooked {
		remember(l.unknown, fmt.Sprint(i), looked{said: true})
	}
	for i := range 2 * lookupQueue { // nobody runs
		l.Known(fmt.Sprint("x", i))
	}
	if len(l.unknown) != maxLooked || !l.Known("good") || len(l.asks) != lookupQueue || l.Counts().Dropped == 0 {
		t.Errorf("%d unknown, good known %t, %d wait, %d dropped", len(l.unknown), l.Known("good"), len(l.asks), l.Counts().Dropped)
	}
}

func TestLookupTellsOfTrouble(t *testing.T) {
	s := newService(t)
	s.status.Store("/keys/a", http.StatusTeapot)
	l := looking(t, s)
	var mu sync.Mutex
	var told []string
	l.OnTrouble = func(err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprint(err))
	}
	l.Known("a")
	eventually.True(t, "trouble is told", func() bool { mu.Lock(); defer mu.Unlock(); return len(told) == 1 })
	l.Known("b")
	eventually.True(t, "its end is told", func() bool { mu.Lock(); defer mu.Unlock(); return len(told) == 2 })
	if !strings.Contains(told[0], "status 418") || told[1] != "<nil>" || strings.Contains(strings.Join(told, ""), "hush") {
		t.Errorf("told %q", told)
	}
	for _, address := range []string{"", "keys", "ftp://h/{hash}", "https://h/", "https://", "http://h:x/{hash}"} {
		if _, err := New(address); err == nil {
			t.Errorf("%q was taken", address)
		}
	}
}
