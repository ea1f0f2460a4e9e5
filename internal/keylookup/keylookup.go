// Package keylookup asks a service over HTTP whether an API key was given out, by the hash
// of the key.
package keylookup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/hideurl"
)

const (
	// lookupTimeout bounds one question, lookupWorkers how many are asked at one time,
	// and lookupQueue how many wait: keys beyond that are asked about when they come
	// again.
	lookupTimeout = 2 * time.Second
	lookupWorkers = 16
	lookupQueue   = 1024
	// knownFor and unknownFor are how long an answer counts without being asked for
	// again, unansweredFor how long nobody is asked again when there was none. A known
	// key is known for keptFor when there are no answers any more.
	knownFor, unknownFor, unansweredFor = 5 * time.Minute, 30 * time.Second, time.Second
	keptFor                             = time.Hour
	// maxLooked bounds the known keys that are remembered, and the others: each has 100
	// bytes. Keys that someone draws at random push out none that are known.
	maxLooked = 1 << 16
	// hashPlace stands in an address for the name of a key.
	hashPlace = "{hash}"
)

// Lookup knows the keys that a service knows. It asks in the background: no decision
// waits. A key of which nothing was said yet is Unsure. It is safe for concurrent use. Make
// one with New.
type Lookup struct {
	address string
	client  *http.Client
	now     func() time.Time
	asks    chan string

	mu      sync.RWMutex
	known   map[string]looked
	unknown map[string]looked

	answered, unanswered, dropped atomic.Uint64
	// OnTrouble, when not nil, is told when answers stop, and with nil when they come
	// again.
	OnTrouble func(error)
	failing   atomic.Bool
}

// Counts are how many questions there were so far, by what became of them: those that were
// answered, those that were not, and those that were not asked because too many waited.
type Counts struct{ Answered, Unanswered, Dropped uint64 }

// Counts returns what became of questions so far.
func (l *Lookup) Counts() Counts {
	return Counts{l.answered.Load(), l.unanswered.Load(), l.dropped.Load()}
}

// looked is what is known of a key.
type looked struct {
	// until is when the answer ends, ask from when on it is asked for again.
	until, ask time.Time
	// said is whether there was an answer.
	said bool
}

// New returns a Lookup that asks GET address, in which {hash} stands for the name of
// a key: 200 and 204 mean known, 404 and 410 unknown, and all else no answer.
func New(address string) (*Lookup, error) {
	u, err := url.Parse(strings.ReplaceAll(address, hashPlace, "hash"))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("not an address of http or https; hint: https://keys.internal/keys/{hash}")
	case !strings.Contains(address, hashPlace):
		return nil, errors.New("no {hash} in it, which stands for the key that is asked about; hint: https://keys.internal/keys/{hash}")
	}
	return &Lookup{
		address: address, now: time.Now, asks: make(chan string, lookupQueue),
		client: &http.Client{Timeout: lookupTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		known:  map[string]looked{}, unknown: map[string]looked{},
	}, nil
}

// Run asks until ctx ends.
func (l *Lookup) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range lookupWorkers {
		workers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case name := <-l.asks:
					l.ask(ctx, name)
				}
			}
		})
	}
	workers.Wait()
	l.client.CloseIdleConnections()
}

// Known reports whether the service knows a key. It waits for nothing.
func (l *Lookup) Known(name string) bool {
	k, there := l.of(name)
	return there && k.known
}

// Unsure reports of a key that is not Known that nobody can say yet. It waits for nothing.
func (l *Lookup) Unsure(name string) bool {
	k, there := l.of(name)
	return !there || !k.said
}

// standing is what is known of a key now.
type standing struct{ known, said bool }

// of returns what is known of a key, and has it asked about when that is nothing or old.
func (l *Lookup) of(name string) (standing, bool) {
	now := l.now()
	l.mu.RLock()
	k, known := l.known[name]
	u, unknown := l.unknown[name]
	l.mu.RUnlock()
	switch {
	case known && now.Before(k.until):
		if !now.Before(k.ask) {
			l.want(name)
		}
		return standing{known: true, said: true}, true
	case unknown && now.Before(u.until):
		return standing{said: u.said}, true
	}
	l.want(name)
	return standing{}, false
}

// want has a key asked about, unless too many are.
func (l *Lookup) want(name string) {
	select {
	case l.asks <- name:
	default:
		l.dropped.Add(1)
	}
}

// ask asks about a key, unless another question has been answered meanwhile.
func (l *Lookup) ask(ctx context.Context, name string) {
	now := l.now()
	l.mu.RLock()
	k, u := l.known[name], l.unknown[name]
	l.mu.RUnlock()
	if now.Before(k.ask) || now.Before(u.until) {
		return
	}
	known, err := l.get(ctx, name)
	if ctx.Err() != nil {
		return
	}
	l.tell(err)
	now = l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil && now.Before(k.until):
		k.ask = now.Add(unansweredFor)
		remember(l.known, name, k)
	case err != nil:
		remember(l.unknown, name, looked{until: now.Add(unansweredFor)})
	case known:
		delete(l.unknown, name)
		remember(l.known, name, looked{until: now.Add(keptFor), ask: now.Add(knownFor), said: true})
	default:
		delete(l.known, name)
		remember(l.unknown, name, looked{until: now.Add(unknownFor), said: true})
	}
}

// remember puts an entry into a map that does not grow without end.
func remember(of map[string]looked, name string, k looked) {
	if _, there := of[name]; !there && len(of) >= maxLooked {
		for other := range of {
			delete(of, other)
			break
		}
	}
	of[name] = k
}

func (l *Lookup) get(ctx context.Context, name string) (known bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.ReplaceAll(l.address, hashPlace, name), nil)
	if err != nil {
		return false, err
	}
	resp, err := l.client.Do(r)
	if err != nil {
		return false, hideurl.In(err)
	}
	// What is left unread costs the connection, no more.
	_, _ = io.CopyN(io.Discard, resp.Body, 4096)
	_ = resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK, http.StatusNoContent:
		return true, nil
	case http.StatusNotFound, http.StatusGone:
		return false, nil
	}
	return false, fmt.Errorf("status %d; hint: 200 for a known key, 404 for one that is not", resp.StatusCode)
}

// tell counts, and tells of trouble when it begins and ends.
func (l *Lookup) tell(err error) {
	if err != nil {
		l.unanswered.Add(1)
	} else {
		l.answered.Add(1)
	}
	if l.failing.Swap(err != nil) != (err != nil) && l.OnTrouble != nil {
		l.OnTrouble(err)
	}
}
