// Package fleet counts the nodes that share a store, by a heartbeat in it.
//
// A node that decides alone, by rule or because its store does not answer, may
// let pass its share: the limit divided by Live. For the shares to add up to no
// more than the limit, every node must know of all others, so the number is slow
// to fall and never falls by silence:
//
//   - It rises with the answer that says so.
//   - It falls to the most that the roster has said for a whole TTL, without a
//     failed heartbeat in between. A store that has lost its data, or a replica
//     that took over without them, knows of few nodes at first; by then they have
//     all come back.
//   - When the roster cannot be asked the last number stays: that is when shares
//     are needed, and the others are not gone because nobody can see them.
//
// What it does not promise: a node that cannot reach the roster does not hear of
// nodes that join meanwhile. While k nodes know of n and m more are there, all
// together may let pass up to k/n + m/(n+m) limits. Before its first answer a node
// knows of Options.Initial; who keeps what Options.OnBeat tells over restarts does not
// begin alone.
//
// Where the number of nodes is known and fixed, Options.Static says it. The node attends
// the roster all the same, because a store learns more from it than a number, and others
// may count; what it says of the number changes nothing.
package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/store"
)

// Defaults of Options.
const (
	DefaultEvery = 2 * time.Second
	// DefaultBeats is how many heartbeats a TTL lasts by default: two may be lost.
	DefaultBeats = 3
)

// jitterPart is the part of Every by which a wait is longer or shorter at most,
// so that a fleet that was started at once does not ask at once.
const jitterPart = 0.1

// Options configures a Fleet. The zero value of each field is its default.
type Options struct {
	// Roster is where the nodes find each other; nil means that this node is
	// alone.
	Roster store.Roster
	// Node names this node, unlike all others; the default is drawn at random.
	Node string
	// Every is the time between heartbeats, a tenth more or less, and how long
	// one may take; default 2 s.
	Every time.Duration
	// TTL is how long a node counts after its last heartbeat; default three times
	// Every, and what is less than twice Every counts as the default.
	TTL time.Duration
	// Initial is the number of nodes until the roster has answered for the first
	// time; default 1.
	Initial int
	// Static is the number of nodes where that is fixed; 0 means that the roster says it.
	Static int
	// Onlooker asks how many nodes there are and is none of them: it decides nothing.
	Onlooker bool
	// OnBeat, when not nil, is told of each heartbeat how many nodes there are then, as
	// Live says it, and why the roster did not answer; nil if it did. It is called by
	// Run, one call at a time, so the next heartbeat waits for it. Where the number is
	// Static it is told nothing.
	OnBeat func(live int, err error)
}

// Fleet is what one node knows of the fleet. Make one with Join.
type Fleet struct {
	options Options
	live    atomic.Int64

	mu struct {
		sync.Mutex
		count count
		stats Stats
	}
}

// Join returns the Fleet of a node. The node counts for others once Run runs.
func Join(o Options) *Fleet {
	if o.Node == "" {
		o.Node = randomName()
	}
	o.Every = cmp.Or(max(o.Every, 0), DefaultEvery)
	if o.TTL < 2*o.Every {
		o.TTL = DefaultBeats * o.Every
	}
	f := &Fleet{options: o}
	f.mu.count = count{live: max(o.Initial, 1), patience: o.TTL}
	if o.Static > 0 {
		f.mu.count.live = o.Static
	}
	f.live.Store(int64(f.mu.count.live))
	return f
}

// randomName returns 64 random bits: two of a thousand nodes share a name with a
// probability of 10^-14.
func randomName() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Live is the number of nodes, at least 1. It costs one atomic load.
func (f *Fleet) Live() int { return int(f.live.Load()) }

// Run sends heartbeats until ctx ends, and then takes the node out of the
// roster, for which it has one more Every.
func (f *Fleet) Run(ctx context.Context) {
	if f.options.Roster == nil {
		<-ctx.Done()
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			f.leave(ctx)
			return
		case <-timer.C:
		}
		f.beat(ctx)
		timer.Reset(jittered(f.options.Every, mathrand.Float64()))
	}
}

// jittered returns d, a tenth more or less: draw is from [0, 1).
func jittered(d time.Duration, draw float64) time.Duration {
	return d + time.Duration((2*draw-1)*jitterPart*float64(d))
}

// beat sends one heartbeat and notes the answer.
func (f *Fleet) beat(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, f.options.Every)
	defer cancel()
	ttl := f.options.TTL
	if f.options.Onlooker {
		ttl = 0
	}
	live, err := f.options.Roster.Attend(asked, f.options.Node, ttl)
	if ctx.Err() != nil {
		return
	}
	f.note(time.Now(), live, err)
	if f.options.OnBeat != nil && f.options.Static == 0 {
		f.options.OnBeat(f.Live(), err)
	}
}

// note notes the answer to a heartbeat.
func (f *Fleet) note(now time.Time, live int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.stats.Err = err; err != nil {
		f.mu.stats.Failed++
		f.mu.count.missed()
		return
	}
	f.mu.stats.Answered++
	f.mu.stats.LastAnswer = now
	f.mu.stats.Said = live
	if f.options.Static == 0 {
		f.mu.count.said(now, live)
		f.live.Store(int64(f.mu.count.live))
	}
}

// leave takes the node out. If that fails it counts for a TTL more, which only
// makes the shares of the others smaller for as long.
func (f *Fleet) leave(ctx context.Context) {
	asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.options.Every)
	defer cancel()
	_, err := f.options.Roster.Attend(asked, f.options.Node, 0)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.stats.Err = err
}

// Stats is what a Fleet knows, and what it has done since Join.
type Stats struct {
	// Node is the name of this node.
	Node string
	// Live is the number of nodes that Live returns, Said what the roster said
	// last; 0 before its first answer.
	Live, Said int
	// Answered and Failed count the heartbeats that the roster answered, and those
	// that it did not.
	Answered, Failed uint64
	// LastAnswer is when it answered last; zero if never.
	LastAnswer time.Time
	// Err is why the last heartbeat failed; nil if it did not.
	Err error
}

// Stats returns a snapshot.
func (f *Fleet) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	stats := f.mu.stats
	stats.Node, stats.Live = f.options.Node, f.mu.count.live
	return stats
}
