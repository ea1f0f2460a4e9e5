package webhook

import (
	"context"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/verdict"
)

// Options configures a Notifier.
type Options struct {
	// Out are those who are told; see Config.
	Out []Receiver
	// Now is the clock; nil means the wall clock.
	Now func() time.Time
	// OnError, when not nil, is told of each event that was given up. The error names
	// the receiver by its place and its host, and holds no address and no key. It is
	// called from several goroutines.
	OnError func(error)
}

// Notifier tells receivers when tenants come near to the end of a limit. It is a
// headgate.Observer, and safe for concurrent use. Make one with New and call Run.
type Notifier struct {
	now       func() time.Time
	receivers []*sender
	// thresholds are those of all receivers, the highest first.
	thresholds []int
	lowest     int64
	seed       maphash.Seed
	told       told
}

var _ headgate.Observer = (*Notifier)(nil)

// New returns a Notifier for receivers as Load makes them. It sends nothing before
// Run.
func New(o Options) *Notifier {
	return newNotifier(o, func(scheme string) http.RoundTripper { return newTransport(scheme) })
}

func newNotifier(o Options, transport func(scheme string) http.RoundTripper) *Notifier {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	n := &Notifier{now: o.Now, seed: maphash.MakeSeed(), lowest: never}
	for i := range o.Out {
		r := &o.Out[i]
		n.receivers = append(n.receivers, newSender(i, r, transport(r.URL.Scheme), &o))
		n.thresholds = append(n.thresholds, r.Thresholds...)
	}
	slices.Sort(n.thresholds)
	slices.Reverse(n.thresholds)
	if n.thresholds = slices.Compact(n.thresholds); len(n.thresholds) > 0 {
		n.lowest = int64(n.thresholds[len(n.thresholds)-1])
	}
	return n
}

// never is a threshold that is not reached: no limit is used by more than 100 %.
const never = 101

// Run sends what is to be told until ctx ends, and returns when nothing is sent any
// more. What is queued then is lost, and stays in Stats.Queued. Run it once.
func (n *Notifier) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, s := range n.receivers {
		for range workers {
			running.Go(func() { s.run(ctx) })
		}
	}
	running.Wait()
}

// Decided implements headgate.Observer. It waits for nothing, and does not allocate
// but for what is told.
func (n *Notifier) Decided(req *headgate.Request, resp *headgate.Response, _ time.Duration) {
	for i := range resp.Verdicts {
		if v := &resp.Verdicts[i]; n.near(v) {
			n.tell(req, v)
		}
	}
}

// near reports whether v is the exact decision of a main limit in force of a tenant,
// of which the lowest threshold is reached. What the reserve of a region denies is not exact:
// the rest of the limit may be unused in other regions.
func (n *Notifier) near(v *headgate.Verdict) bool {
	d := &v.Decision
	return v.Tenant > 0 && (d.Limit-d.Remaining)*100 >= n.lowest*d.Limit && d.Limit > 0 &&
		v.Limit != nil && v.Enforced() && v.Role.IsMain() && v.By == verdict.ByStore
}

// tell queues the events of a verdict, unless they were told before.
func (n *Notifier) tell(req *headgate.Request, v *headgate.Verdict) {
	at := n.now()
	reached := n.reached(v)
	window := windowOf(v, at)
	before, ok := n.told.rise(n.key(req, v), window, reached)
	if !ok {
		return
	}
	e := eventOf(req, v, at)
	for _, s := range n.receivers {
		if e.Threshold = s.threshold(reached); e.Threshold <= before {
			continue
		}
		if e.Type = NearExhaustion; e.Threshold == 100 {
			e.Type = Exhausted
		}
		if s.wants(e.Type) {
			e.identify(req, v, window)
			s.queue(e)
		}
	}
}

// reached returns the highest threshold that a verdict has reached, which is at least
// the lowest one.
func (n *Notifier) reached(v *headgate.Verdict) int {
	share := used(v) * 100 / v.Decision.Limit
	for _, t := range n.thresholds {
		if share >= int64(t) {
			return t
		}
	}
	return 0
}

// windowOf returns the end of the window that a limit counts in, in microseconds from
// 1970, such that all decisions of one window have the same, on all nodes, whose clocks
// may be some way apart. What has no windows that begin and end at once for all is told
// of once in each whole period.
func windowOf(v *headgate.Verdict, at time.Time) int64 {
	now := int64(limit.MicrosOf(at))
	end, period := now+v.Decision.ResetAfter.Microseconds(), v.Limit.PeriodMicros()
	switch {
	case v.Limit.Calendar != nil, v.Source == tenant.FromTopUp:
		return nearest(end, time.Minute.Microseconds())
	case v.Limit.Algorithm == limit.FixedWindow:
		return nearest(end, period)
	}
	return now - now%period + period
}

// nearest returns the multiple of unit that is nearest to n.
func nearest(n, unit int64) int64 { return (n + unit/2) / unit * unit }

// key returns what a limit of a tenant is remembered by. That two have one is as
// likely as a wrong guess at 64 bits.
func (n *Notifier) key(req *headgate.Request, v *headgate.Verdict) uint64 {
	var h maphash.Hash
	h.SetSeed(n.seed)
	part := func(s string) {
		maphash.WriteComparable(&h, len(s))
		h.WriteString(s)
	}
	part(req.Domain)
	part(v.Rule.ID)
	part(v.Name)
	for e := range counted(req, v, 0) {
		part(e.Key)
		part(e.Value)
	}
	return h.Sum64()
}

// Stats are counts since the start, over all receivers. Told is always the sum of
// Sent, Failed, Dropped and Queued.
type Stats struct {
	// Told are the events that were due, one for each receiver.
	Told uint64
	// Sent were taken by their receiver, Failed were given up, and Dropped found the
	// queue full.
	Sent, Failed, Dropped uint64
	// Retried are the requests beyond the first one of an event.
	Retried uint64
	// Queued are those that wait or are being sent.
	Queued int64
}

// Stats returns the counts.
func (n *Notifier) Stats() Stats {
	var sum Stats
	for _, s := range n.receivers {
		s.addTo(&sum)
	}
	return sum
}
