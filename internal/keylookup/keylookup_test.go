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

// looking is a Lookup that runs, with a clock of the test.
func looking(t *testing.T, s *service) (l *Lookup, advance func(time.Duration)) {
	t.Helper()
	l, err := New(s.URL + "/keys/{hash}?secret=hush")
	if err != nil {
		t.Fatal(err)
	}
	var passed atomic.Int64
	start := time.Now()
	l.now = func() time.Time { return start.Add(time.Duration(passed.Load())) }
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
	return l, func(d time.Duration) { passed.Add(int64(d)) }
}

// TestLookup: the first look says that nobody can say; then the answer counts for its
// time, and without another one a known key stays known for an hour.
func TestLookup(t *testing.T) {
	s := newService(t)
	s.status.Store("/keys/good", http.StatusNoContent)
	l, advance := looking(t, s)
	if l.Known("good") || !l.Unsure("good") {
		t.Error("known before anybody was asked")
	}
	eventually.True(t, "good is known", func() bool { return l.Known("good") })
	eventually.True(t, "bad is not", func() bool { return !l.Known("bad") && !l.Unsure("bad") })
	asked := s.asked.Load()
	for range 100 {
		l.Known("good")
		l.Unsure("bad")
	}
	if got := s.asked.Load(); got != asked {
		t.Errorf("asked %d times more", got-asked)
	}
	s.status.Store("/keys/bad", http.StatusOK)
	advance(unknownFor)
	eventually.True(t, "bad was given to someone", func() bool {
		if !l.Known("bad") && !l.Unsure("bad") {
			advance(unknownFor) // an answer of before was still on its way, and counts for its time
		}
		return l.Known("bad")
	})

	// It does not answer any more.
	for _, key := range []string{"good", "bad", "new"} {
		s.status.Store("/keys/"+key, http.StatusInternalServerError)
	}
	advance(knownFor)
	eventually.True(t, "there was no answer", func() bool {
		l.Known("good")
		l.mu.RLock()
		fresh := l.now().Before(l.known["good"].ask)
		l.mu.RUnlock()
		none := l.Counts().Unanswered > 0
		if fresh && !none {
			advance(knownFor) // an answer of before was still on its way, and counts for its time
		}
		return none
	})
	if !l.Known("good") || l.Unsure("good") {
		t.Error("a known key is not known when nobody answers")
	}
	before := l.Counts().Unanswered
	eventually.True(t, "nobody could say", func() bool { l.Known("new"); return l.Counts().Unanswered > before })
	if l.Known("new") || !l.Unsure("new") {
		t.Error("a key that nobody was asked about is unknown")
	}
	advance(keptFor)
	if l.Known("good") || !l.Unsure("good") {
		t.Error("a key is known for ever")
	}
	s.status.Store("/keys/good", http.StatusGone)
	advance(unansweredFor)
	eventually.True(t, "good was taken back", func() bool { return !l.Known("good") && !l.Unsure("good") })
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
	l, _ := looking(t, s)
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
