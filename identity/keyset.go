package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

// Defaults of KeySetOptions.
const (
	DefaultRefresh    = 10 * time.Minute
	DefaultMinRefresh = 10 * time.Second
	DefaultMaxAge     = 24 * time.Hour
	DefaultFetchLimit = 5 * time.Second
)

// KeySetOptions configures a KeySet. Exactly one of URL and File is set.
type KeySetOptions struct {
	// URL is where a JSON Web Key Set is published. It must be https, and so must
	// be what it redirects to.
	URL string
	// AllowLoopback lets URL be plain http on localhost, 127.0.0.0/8 or ::1.
	AllowLoopback bool
	// File holds a JSON Web Key Set instead. It is a regular file.
	File string
	// Client fetches URL; nil means one with net/http's default transport. Its
	// redirect policy is replaced.
	Client *http.Client
	// Refresh is how often the keys are read again, 1 second to a day; 0 means
	// DefaultRefresh. Up to a tenth is added at random, so that a fleet spreads.
	Refresh time.Duration
	// MinRefresh is the least time between two reads, also when tokens name keys
	// that are not known and when reads fail; up to Refresh. 0 means
	// DefaultMinRefresh, or Refresh if that is less.
	MinRefresh time.Duration
	// MaxAge is how long keys are believed after they were last read, at least
	// Refresh; 0 means DefaultMaxAge, or Refresh if that is more. It bounds for how
	// long a key that was withdrawn still counts when its publisher cannot be
	// reached.
	MaxAge time.Duration
	// FetchLimit is how long one read may take, up to a minute; 0 means
	// DefaultFetchLimit.
	FetchLimit time.Duration
	// Now is the clock; nil means time.Now. It must agree with the one whose
	// instants are given to TokenVerifier.Verify.
	Now func() time.Time
	// OnRefresh, when not nil, is told of every read that Run made: nil where it
	// succeeded. It may be called from Run's goroutine only.
	OnRefresh func(error)
}

// KeySet holds the public keys that tokens are verified with, and reads them again
// from time to time. Only Run and Refresh wait for the source; looking a key up
// never does. When a read fails, the last good keys go on counting until they are
// MaxAge old. A token that names a key which is not there makes Run read at once,
// but not more often than MinRefresh.
//
// A KeySet is safe for concurrent use. It starts empty: call Refresh once before
// serving where tokens must work from the first request on, and Run in a
// goroutine.
type KeySet struct {
	source     keySource
	maxAge     time.Duration
	fetchLimit time.Duration
	now        func() time.Time
	onRefresh  func(error)

	current atomic.Pointer[datedRing]
	// wanted holds a token while someone waits for a key that is not there.
	wanted sleep.Nudge
	// reading holds a token while the source is being read; who holds it owns
	// plan and source.
	reading chan struct{}
	plan    refreshPlan

	reads, failures, unknown atomic.Uint64
}

// datedRing is a keyring with the instant when it was last known to be true.
type datedRing struct {
	*keyring
	read time.Time
}

// NewKeySet checks options. It reads nothing yet.
func NewKeySet(o KeySetOptions) (*KeySet, error) {
	var bad problems
	o.Refresh = cmp.Or(o.Refresh, DefaultRefresh)
	o.MinRefresh = cmp.Or(o.MinRefresh, min(DefaultMinRefresh, o.Refresh))
	o.MaxAge = cmp.Or(o.MaxAge, max(DefaultMaxAge, o.Refresh))
	o.FetchLimit = cmp.Or(o.FetchLimit, DefaultFetchLimit)
	if o.Refresh < time.Second || o.Refresh > 24*time.Hour {
		bad.add("Refresh", o.Refresh.String(), "write 1s to 24h")
	}
	if o.MinRefresh < 0 || o.MinRefresh > o.Refresh {
		bad.add("MinRefresh", o.MinRefresh.String(), "write no more than Refresh")
	}
	if o.MaxAge < o.Refresh {
		bad.add("MaxAge", o.MaxAge.String(), "write at least Refresh, better several times that")
	}
	if o.FetchLimit < 0 || o.FetchLimit > time.Minute {
		bad.add("FetchLimit", o.FetchLimit.String(), "write up to 1m")
	}
	k := &KeySet{
		maxAge: o.MaxAge, fetchLimit: o.FetchLimit, now: o.Now, onRefresh: o.OnRefresh,
		wanted: sleep.NewNudge(), reading: make(chan struct{}, 1),
		plan: refreshPlan{every: o.Refresh, least: o.MinRefresh},
	}
	if k.now == nil {
		k.now = time.Now
	}
	switch {
	case (o.URL == "") == (o.File == ""):
		bad.add("URL", "not exactly one of URL and File is set", "write where the keys are published, or the file that holds them")
	case o.File != "":
		k.source = fileSource{o.File}
	default:
		k.source = newWebSource(o, &bad)
	}
	return k, bad.err()
}

// Run reads the keys whenever it is time, until ctx ends; it returns ctx's error.
// Run it once.
func (k *KeySet) Run(ctx context.Context) error {
	for {
		if err := k.waitTurn(ctx); err != nil {
			return err
		}
		err := k.Refresh(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if k.onRefresh != nil {
			k.onRefresh(err)
		}
	}
}

// waitTurn waits until the next read is due.
func (k *KeySet) waitTurn(ctx context.Context) error {
	asked := false
	for {
		if err := k.begin(ctx); err != nil {
			return err
		}
		due := k.plan.next(asked)
		k.end()
		wait := due.Sub(k.now())
		if wait <= 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		case <-k.wanted:
			timer.Stop()
			asked = true
		}
	}
}

// begin takes the source and the plan, end gives them back.
func (k *KeySet) begin(ctx context.Context) error {
	select {
	case k.reading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *KeySet) end() { <-k.reading }

// Refresh reads the keys now, and waits for it. On an error the keys stay as they
// were. The error does not hold the address, which may hold a secret.
func (k *KeySet) Refresh(ctx context.Context) error {
	if err := k.begin(ctx); err != nil {
		return err
	}
	defer k.end()
	// Whoever asked until now is served by this read.
	select {
	case <-k.wanted:
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, k.fetchLimit)
	defer cancel()
	err := k.read(ctx)
	k.reads.Add(1)
	if err != nil {
		k.failures.Add(1)
		k.source.forget()
		err = fmt.Errorf("identity: read the key set: %w", err)
	}
	k.plan.done(k.now(), err != nil, rand.Float64())
	return err
}

func (k *KeySet) read(ctx context.Context) error {
	data, err := k.source.read(ctx)
	if now := k.now(); errors.Is(err, errUnchanged) {
		if last := k.current.Load(); last != nil {
			k.current.Store(&datedRing{last.keyring, now})
			return nil
		}
	}
	if err != nil {
		return err
	}
	ring, err := parseKeySet(data)
	if err != nil {
		return err
	}
	k.current.Store(&datedRing{ring, k.now()})
	return nil
}

// inForce returns the keys that are believed at now, and nil if there are none.
func (k *KeySet) inForce(now time.Time) *keyring {
	ring := k.current.Load()
	if ring == nil || now.Sub(ring.read) > k.maxAge {
		return nil
	}
	return ring.keyring
}

// miss notes a token whose key is not in the set, and asks for a read.
func (k *KeySet) miss() {
	k.unknown.Add(1)
	k.want()
}

// want asks Run for a read, unless someone has.
func (k *KeySet) want() { k.wanted.Give() }

// KeySetStats says how a KeySet is.
type KeySetStats struct {
	// Keys is how many keys are in force, Skipped how many of the set could not
	// be used.
	Keys, Skipped int
	// LastRead is when the keys were last known to be true; zero if never.
	LastRead time.Time
	// Reads counts reads of the source, Failures those that failed.
	Reads, Failures uint64
	// Unknown counts tokens whose key was not in the set.
	Unknown uint64
}

// Stats returns a snapshot.
func (k *KeySet) Stats() KeySetStats {
	s := KeySetStats{Reads: k.reads.Load(), Failures: k.failures.Load(), Unknown: k.unknown.Load()}
	if ring := k.current.Load(); ring != nil {
		s.Keys, s.Skipped, s.LastRead = len(ring.keys), ring.skipped, ring.read
	}
	return s
}

// refreshPlan says when the keys are read next.
type refreshPlan struct {
	every, least time.Duration
	last         time.Time
	failures     int
	jitter       time.Duration
}

// maxBackoffShift bounds the doubling of the pause after failures, so that it
// cannot overflow: 2^16 times one second is longer than any Refresh.
const maxBackoffShift = 16

// next returns when the next read is due: the zero time if there was none yet.
// After failures the pause is least, doubled for each, every at most; a key that
// is asked for shortens it to least.
func (p *refreshPlan) next(asked bool) time.Time {
	if p.last.IsZero() {
		return time.Time{}
	}
	pause := p.every + p.jitter
	if p.failures > 0 {
		pause = min(pause, max(p.least, time.Second)<<min(p.failures-1, maxBackoffShift))
	}
	if asked {
		pause = min(pause, p.least)
	}
	return p.last.Add(pause)
}

// done notes a read that ended now. spread is a random number in [0, 1).
func (p *refreshPlan) done(now time.Time, failed bool, spread float64) {
	p.last = now
	p.jitter = time.Duration(spread * float64(p.every) / 10)
	if failed {
		p.failures++
	} else {
		p.failures = 0
	}
}
