package redisstore

import (
	"context"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

const (
	// The servers of a cluster are looked up every minRefresh to twice that, and
	// every minHurry to twice that while one of them cannot be reached.
	minRefresh = 5 * time.Second
	minHurry   = 200 * time.Millisecond
	// refreshGap is the least time between two look-ups, however many calls are
	// redirected.
	refreshGap = 50 * time.Millisecond
	// maxShards bounds the servers that are connected: more than the tags have
	// no use, but for those that are about to take over.
	maxShards = 2 * tagCount
	// maxKnown bounds the servers that are remembered for look-ups.
	maxKnown = 1000
	// spare is how long a server without slots stays connected after a call was
	// redirected to it: it is about to get some.
	spare = 30 * time.Second
)

// router knows which server of a cluster has which buckets. It looks that up in
// the background, and learns from redirections.
type router struct {
	options *Options
	// connect starts to connect to a server; see Store.openShard.
	connect func(o *Options, lost func()) *shard

	table atomic.Pointer[table]
	// fault says why a tag has no shard.
	fault atomic.Pointer[store.Error]

	mu     sync.Mutex
	shards map[string]*shard    // by address
	spares map[string]time.Time // when a call was last redirected to an address
	nodes  []string             // addresses of servers, replicas among them
	// gates are those of addresses that are no shard's and did not answer when they
	// were asked for their view; at most maxKnown.
	gates map[string]*conn.Gate
	// emptied has the histories of servers that were well when their last slot
	// was moved away; at most maxKnown, the latest.
	emptied []uint32
	closed  bool

	hurry    sleep.Nudge // has room for one
	cancel   context.CancelFunc
	done     chan struct{}
	retiring sync.WaitGroup
}

// table says which shard has the slot of each tag; nil where none does. It is
// never changed, only replaced.
type table [tagCount]*shard

// openRouter starts to look for the servers, and returns when the first look-up
// has succeeded or failed.
func openRouter(o *Options, connect func(*Options, func()) *shard) *router {
	ctx, cancel := context.WithCancel(context.Background())
	r := &router{
		options: o,
		connect: connect,
		shards:  map[string]*shard{},
		spares:  map[string]time.Time{},
		gates:   map[string]*conn.Gate{},
		nodes:   slices.Clone(o.Cluster),
		hurry:   sleep.NewNudge(),
		cancel:  cancel,
		done:    make(chan struct{}),
	}
	r.table.Store(new(table))
	r.fault.Store(o.Fault("dial", conn.ErrFirstDial))
	first := make(chan struct{})
	go r.run(ctx, first)
	<-first
	return r
}

// close ends the connections and the background work.
func (r *router) close() {
	r.cancel()
	<-r.done
	r.mu.Lock()
	r.closed = true
	all := r.shards
	r.shards = nil
	r.mu.Unlock()
	r.fault.Store(r.options.Fault("dial", conn.ErrClosed))
	for _, sh := range all {
		r.retiring.Go(func() { sh.Close(conn.ErrClosed) })
	}
	r.retiring.Wait()
}

// shard returns the shard that has the slot of a tag, or why there is none.
func (r *router) shard(tag int) (*shard, *store.Error) {
	if sh := r.table.Load()[tag]; sh != nil {
		return sh, nil
	}
	return nil, r.fault.Load()
}

// gap says why some tag has no shard; nil if all have.
func (r *router) gap() *store.Error {
	for _, sh := range r.table.Load() {
		if sh == nil {
			return r.fault.Load()
		}
	}
	return nil
}

// all returns the servers that are connected, spares among them, in the order of their
// addresses.
func (r *router) all() []*shard {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.shards), byAddr)
}

// serving returns the shards that some tag leads to, in the order of their addresses.
// A spare is not among them: it has no bucket, so the store decides without it.
func (r *router) serving() []*shard {
	table := *r.table.Load() // a copy, because a table is never changed
	list := slices.DeleteFunc(table[:], func(sh *shard) bool { return sh == nil })
	slices.SortFunc(list, byAddr)
	return slices.Compact(list)
}

func byAddr(a, b *shard) int { return strings.Compare(a.Options.Addr, b.Options.Addr) }

// run looks up the servers, again and again.
func (r *router) run(ctx context.Context, first chan<- struct{}) {
	defer close(r.done)
	for attempt := 0; ctx.Err() == nil; attempt++ {
		r.refresh(ctx)
		if attempt == 0 {
			close(first)
		}
		_ = sleep.For(ctx, refreshGap+rand.N(refreshGap))
		pause := minRefresh
		if !r.well() {
			pause = minHurry
		}
		timer := time.NewTimer(pause + rand.N(pause))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-r.hurry:
		}
		timer.Stop()
	}
}

// wake has the servers looked up soon.
func (r *router) wake() { r.hurry.Give() }

// well reports whether every tag has a shard that is connected.
func (r *router) well() bool {
	for _, sh := range r.table.Load() {
		if sh == nil {
			return false
		}
		if _, fault := sh.Session(); fault != nil {
			return false
		}
	}
	return true
}

// refresh looks up the servers once.
func (r *router) refresh(ctx context.Context) {
	v, fault := r.look(ctx)
	if fault != nil {
		r.fault.Store(fault)
		return
	}
	r.fault.Store(r.options.Fault("take", conn.ErrNoServer))
	next := r.tableOf(ctx, v)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.table.Store(next)
	r.remember(v.nodes)
	r.retire(next)
}

// tableOf opens the shards that a view names, and waits until each new one is
// connected or cannot be: until then the old table stays.
func (r *router) tableOf(ctx context.Context, v view) *table {
	next := new(table)
	for i, addr := range v.of {
		if addr != "" {
			next[i] = r.open(addr)
		}
	}
	for _, sh := range next {
		if sh != nil {
			sh.AwaitFirst(ctx)
		}
	}
	return next
}

// open returns the shard at an address, and begins to connect to a new one. It
// returns nil when there are too many, or the router is closed.
func (r *router) open(addr string) *shard {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sh := r.shards[addr]; sh != nil {
		return sh
	}
	if r.closed || len(r.shards) >= maxShards {
		return nil
	}
	sh := r.connect(r.options.At(addr), r.wake)
	r.shards[addr] = sh
	return sh
}

// gateOf returns the gate of the server at an address: that of its shard if it is one.
func (r *router) gateOf(addr string) *conn.Gate {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sh := r.shards[addr]; sh != nil {
		return sh.Gate
	}
	g := r.gates[addr]
	if g == nil {
		if len(r.gates) >= maxKnown {
			clear(r.gates)
		}
		g = conn.NewGate(r.options)
		r.gates[addr] = g
	}
	return g
}

// remember notes servers to ask when those that are connected do not answer.
// The caller holds mu.
func (r *router) remember(nodes []string) {
	for _, seed := range r.options.Cluster {
		if !slices.Contains(nodes, seed) {
			nodes = append(nodes, seed)
		}
	}
	r.nodes = nodes[:min(len(nodes), maxKnown)]
}

// retire closes the shards that no tag leads to any more, once the calls under
// way there are over. The caller holds mu.
func (r *router) retire(next *table) {
	now := time.Now()
	for addr, sh := range r.shards {
		if slices.Contains(next[:], sh) || now.Sub(r.spares[addr]) < spare {
			continue
		}
		delete(r.shards, addr)
		delete(r.spares, addr)
		if se, _ := sh.Session(); se != nil {
			r.emptied = append(r.emptied[max(0, len(r.emptied)-maxKnown+1):], se.History)
		}
		r.retiring.Go(func() { sh.Close(conn.ErrRetired) })
	}
}

// unharmed reports whether the server with a history has not failed: it is connected,
// or was until it had no slot any more.
func (r *router) unharmed(history uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sh := range r.shards {
		if se, _ := sh.Session(); se != nil && se.History == history {
			return true
		}
	}
	return slices.Contains(r.emptied, history)
}

// redirection is what a server says that does not have a slot.
type redirection struct {
	addr string // HOST:PORT; an empty HOST is that of the server itself
	// ask says that this call alone goes there: the slot is being moved.
	ask bool
}

// redirectionOf reads "MOVED slot host:port" and "ASK slot host:port".
func redirectionOf(err error) (redirection, bool) {
	text, ok := conn.ReplyText(err)
	if !ok {
		return redirection{}, false
	}
	words := strings.Fields(text)
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return redirection{}, false
	}
	return redirection{addr: words[2], ask: words[0] == "ASK"}, true
}

// redirect returns the shard to which a call was redirected from another, or nil
// if there is no such server. The next calls of the tag go there too if the slot
// has moved for good.
func (r *router) redirect(tag int, from *shard, to redirection) *shard {
	r.wake()
	addr, ok := resolve(to.addr, from.Options.Addr)
	if !ok {
		return nil
	}
	sh := r.open(addr)
	if sh == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spares[addr] = time.Now(); !to.ask && r.shards[addr] == sh {
		next := *r.table.Load()
		next[tag] = sh
		r.table.Store(&next)
	}
	return sh
}

// resolve completes an address as a server gives it with the host of the server
// itself, where it does not know better.
func resolve(given, asked string) (string, bool) {
	// An IPv6 address comes without brackets.
	i := strings.LastIndexByte(given, ':')
	if i < 0 {
		return "", false
	}
	return nodeAt(strings.Trim(given[:i], "[]"), given[i+1:], asked)
}

// nodeAt makes an address of a host, which may be unknown, and a port.
func nodeAt(host, port, asked string) (string, bool) {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", false
	}
	if host == "" || host == "?" {
		own, _, err := net.SplitHostPort(asked)
		if err != nil {
			return "", false
		}
		host = own
	}
	return net.JoinHostPort(host, port), true
}
