// Package refusals counts requests that are refused because of who asks, and logs them without
// letting an attack fill the log: the first refusal of its kind at once, and then once a
// minute how many there were, and of how many networks.
//
// Nothing of a credential is kept or told. Of an address only its network is, as in events
// of decisions.
package refusals

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

const (
	// Every is the time between two notices of one door and reason.
	Every = time.Minute
	// maxNetworks bounds the networks of one notice that are told apart.
	maxNetworks = 256

	// lookEvery is how often Run looks for what is to be told.
	lookEvery = 5 * time.Second
	// bits4 and bits6 are those of an address that are kept.
	bits4, bits6 = 24, 48
)

// Notice tells of refusals.
type Notice struct {
	Door   Door
	Reason Reason
	// Count is the number of refusals since the notice before, at least 1.
	Count uint64
	// Networks is the number of different networks that they came from, at most
	// maxNetworks; 0 for what came over sockets of this machine alone.
	Networks int
	// Network is where the last one came from, a /24 of IPv4 or a /48 of IPv6; "" for a
	// socket.
	Network string
	// Actor is who asked last, by the name of a credential that somebody was given, which
	// may have expired; "" where there was none.
	Actor string
}

// Options configures a Log.
type Options struct {
	// Tell gets the notices; nil gets none. It must not wait.
	Tell func(Notice)
	// Now is the clock; nil means the wall clock.
	Now func() time.Time
}

// Log counts refusals. It is safe for concurrent use. Make one with New; nil counts
// nothing.
type Log struct {
	options Options
	served  [doors]atomic.Bool
	cells   [doors][reasons]cell
}

// cell is the refusals of one door and reason.
type cell struct {
	total atomic.Uint64

	mu       sync.Mutex
	toldAt   time.Time // zero: never
	untold   uint64
	networks map[netip.Prefix]struct{} // of untold
	last     netip.Prefix
	actor    string
}

// New returns a Log.
func New(o Options) *Log {
	if o.Tell == nil {
		o.Tell = func(Notice) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Log{options: o}
}

// Serve notes that there are such doors, so that Counts has all that they may refuse from
// the start.
func (l *Log) Serve(served ...Door) {
	for _, d := range served {
		l.served[d].Store(true)
	}
}

// Refused counts a request that a door has refused, by the address that it came from. actor
// is the name of a credential that is good, and not good enough; "" for none.
func (l *Log) Refused(d Door, because Reason, r *http.Request, actor string) {
	l.RefusedFrom(d, because, AddressOf(r), actor)
}

// RefusedFrom is Refused for an address; the zero one is a socket of this machine.
func (l *Log) RefusedFrom(d Door, because Reason, from netip.Addr, actor string) {
	if l == nil || d >= doors || because == None || because >= reasons {
		return
	}
	l.served[d].Store(true)
	c := &l.cells[d][because]
	c.total.Add(1)
	if notice, ok := c.note(networkOf(from), actor, l.options.Now()); ok {
		notice.Door, notice.Reason = d, because
		l.options.Tell(notice)
	}
}

// note remembers a refusal, and returns a notice when it is time for one.
func (c *cell) note(network netip.Prefix, actor string, now time.Time) (Notice, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.untold++
	c.last, c.actor = network, actor
	if network.IsValid() && len(c.networks) < maxNetworks {
		if c.networks == nil {
			c.networks = map[netip.Prefix]struct{}{}
		}
		c.networks[network] = struct{}{}
	}
	return c.noticeLocked(now, false)
}

// noticeLocked returns a notice of what is untold, if it is time for one or always.
func (c *cell) noticeLocked(now time.Time, always bool) (Notice, bool) {
	since := now.Sub(c.toldAt)
	if c.untold == 0 || !always && !c.toldAt.IsZero() && since >= 0 && since < Every {
		return Notice{}, false
	}
	n := Notice{Count: c.untold, Networks: len(c.networks), Actor: c.actor}
	if c.last.IsValid() {
		n.Network = c.last.String()
	}
	c.toldAt, c.untold, c.networks = now, 0, nil
	return n, true
}

// Run tells of what came after the last notice until ctx ends, and then once more. Without
// it that waits for the next refusal.
func (l *Log) Run(ctx context.Context) {
	for range sleep.Every(ctx, lookEvery) {
		l.tell(false)
	}
	l.tell(true)
}

func (l *Log) tell(always bool) {
	now := l.options.Now()
	for d := range doors {
		for r := range reasons {
			c := &l.cells[d][r]
			c.mu.Lock()
			notice, ok := c.noticeLocked(now, always)
			c.mu.Unlock()
			if ok {
				notice.Door, notice.Reason = d, r
				l.options.Tell(notice)
			}
		}
	}
}

// Count is how often a door has refused for one reason since the start.
type Count struct {
	Door   Door
	Reason Reason
	Total  uint64
}

// Counts returns all counts of the doors that are there.
func (l *Log) Counts() []Count {
	var list []Count
	for d := range doors {
		for r := None + 1; r < reasons; r++ {
			if n := l.cells[d][r].total.Load(); n > 0 || l.served[d].Load() && usual(d, r) {
				list = append(list, Count{d, r, n})
			}
		}
	}
	return list
}

// AddressOf returns the address that a request came from; the zero one for a socket of this
// machine. It is that of the connection: what a header says anybody can say.
func AddressOf(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address, _ := netip.ParseAddr(host) // the zero one else
	return address
}

// networkOf returns the network of an address; not a valid one where there is none.
func networkOf(a netip.Addr) netip.Prefix {
	bits := bits6
	if a = a.Unmap().WithZone(""); a.Is4() {
		bits = bits4
	}
	network, _ := a.Prefix(bits) // the zero one for the zero address
	return network
}
