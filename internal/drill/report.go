package drill

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxReport bounds a report as JSON, in bytes.
const maxReport = 64 << 10

// Counts are what became of requests. Each counts in one of Store, Reserve, Local, Open,
// Passed and Failed.
type Counts struct {
	// Decided is how many requests there were, Denied how many of them were denied for
	// whatever reason.
	Decided uint64 `json:"decided"`
	Denied  uint64 `json:"denied"`
	// Store counts requests that the store decided, or that no limit was for.
	Store uint64 `json:"store"`
	// Reserve counts those that were denied because a region is cut off from the home of a
	// limit, and has used its reserve: the limit may be far from used up. They are errors by
	// which a drill aborts.
	Reserve uint64 `json:"reserve"`
	// Local counts those in which this node decided by its share of a limit (failure mode
	// local), Open those in which it did by the whole limit (failure mode open).
	Local uint64 `json:"local"`
	Open  uint64 `json:"open"`
	// Passed counts those that were let pass though nobody looked at a limit.
	Passed uint64 `json:"passed"`
	// Failed counts those that were turned away because the store could not decide
	// (failure mode closed). They are errors by which a drill aborts.
	Failed uint64 `json:"failed"`
	// Unchecked counts requests that were admitted though the store, which alone knows
	// what others have used, was not asked: admitted ones of Local and Open, and Passed.
	Unchecked uint64 `json:"unchecked"`
	// Panics are decisions that ended by a bug, errors too.
	Panics uint64 `json:"panics"`
}

// Errors are those by which a drill aborts.
func (c *Counts) Errors() uint64 { return c.Reserve + c.Failed + c.Panics }

func (c *Counts) add(o *Counts) {
	c.Decided += o.Decided
	c.Denied += o.Denied
	c.Store += o.Store
	c.Reserve += o.Reserve
	c.Local += o.Local
	c.Open += o.Open
	c.Passed += o.Passed
	c.Failed += o.Failed
	c.Unchecked += o.Unchecked
	c.Panics += o.Panics
}

// Latency is how long decisions took, in microseconds. P50 and P99 are the upper ends of the
// buckets that they fall in, 0 where that is the last one.
type Latency struct {
	P50 int64 `json:"p50_us"`
	P99 int64 `json:"p99_us"`
	Max int64 `json:"max_us"`
	// Buckets has how many took up to each of latencyBounds and more than the one before,
	// and last those that took more than all, so that those of several nodes can be added.
	Buckets []uint64 `json:"buckets"`
}

// State is where a node is in a drill.
type State string

// The states.
const (
	// Running: the fault is there.
	Running State = "running"
	// Healing: the fault is gone, and what was away is not back yet.
	Healing State = "healing"
	// Done: all is over.
	Done State = "done"
	// Apart: the node takes no part; Detail says why.
	Apart State = "apart"
)

// Report is what one node has seen of a drill.
type Report struct {
	ID    string `json:"id"` // of the Order
	Node  string `json:"node"`
	State State  `json:"state"`
	// Detail is why a node is Apart, or why its drill ended.
	Detail string `json:"detail,omitempty"`
	Why    Why    `json:"why,omitempty"`
	// LastedMS is how long the fault has been there, in milliseconds.
	LastedMS int64 `json:"lasted_ms"`
	// Closed is how many connections the fault has broken.
	Closed int `json:"closed"`
	Counts
	Latency Latency `json:"latency"`
	Away    []Away  `json:"away"`
}

// ParseReport reads the report of a node, which others have written.
func ParseReport(data []byte) (*Report, error) {
	if len(data) > maxReport {
		return nil, errors.New("a report of a drill that is too long")
	}
	r := new(Report) // fields that a newer node adds are none of ours
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("a report of a drill: %w", err)
	}
	switch {
	case !line(r.ID, MaxName) || !line(r.Node, MaxName) || !line(r.Detail, 4*MaxReason):
		return nil, errors.New("a report of a drill: not one line of text")
	case !slices.Contains([]State{Running, Healing, Done, Apart}, r.State):
		return nil, fmt.Errorf("a report of a drill: state %.40q is none", string(r.State))
	case len(r.Away) > maxAway || len(r.Latency.Buckets) > len(latencyBounds)+1:
		return nil, errors.New("a report of a drill: too many rows")
	}
	for i := range r.Away {
		if !line(r.Away[i].Name, 2*MaxName) {
			return nil, errors.New("a report of a drill: not one line of text")
		}
	}
	return r, nil
}

// Whole is a drill over all nodes.
type Whole struct {
	// Order is the drill; nil, and missing in JSON: there was none that is still known.
	Order *Order `json:"order,omitempty"`
	// UnderWay says that the fault is there. LeftMS is how long still, in milliseconds.
	UnderWay bool  `json:"under_way"`
	LeftMS   int64 `json:"left_ms"`
	// Nodes are the reports of nodes, by name, Sum what they say together.
	Nodes []Report `json:"nodes"`
	Sum   Counts   `json:"sum"`
	// TookPart counts those of them that had the fault.
	TookPart int `json:"took_part"`
	// Latency is that of all nodes.
	Latency Latency `json:"latency"`
	// Error says why there is less than there might be, "" where nothing is missing.
	Error string `json:"error,omitempty"`
}

// Nobody reports whether no node takes part, or has taken part, as far as their reports say.
func (w *Whole) Nobody() bool { return w.Order != nil && w.TookPart == 0 && w.Error == "" }

// Sum puts together what the nodes say of o at now; reports of other drills are left out.
func Sum(o *Order, now time.Time, reports []Report) Whole {
	w := Whole{Order: o, Nodes: []Report{}, Latency: Latency{Buckets: []uint64{}}}
	if o == nil {
		return w
	}
	if w.UnderWay = o.UnderWay(now); w.UnderWay {
		w.LeftMS = min(o.Until().Sub(now), o.Lasts()).Milliseconds()
	}
	for i := range reports {
		r := &reports[i]
		if r.ID != o.ID {
			continue
		}
		w.Nodes = append(w.Nodes, *r)
		w.Sum.add(&r.Counts)
		if r.State != Apart {
			w.TookPart++
		}
		w.Latency.add(&r.Latency)
	}
	slices.SortFunc(w.Nodes, func(a, b Report) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), cmp.Compare(b.Decided, a.Decided))
	})
	w.Latency.measure()
	return w
}

func (l *Latency) add(o *Latency) {
	for len(l.Buckets) < len(o.Buckets) {
		l.Buckets = append(l.Buckets, 0)
	}
	for i, n := range o.Buckets {
		l.Buckets[i] += n
	}
	l.Max = max(l.Max, o.Max)
}

// measure sets P50 and P99 by the buckets.
func (l *Latency) measure() {
	var total uint64
	for _, n := range l.Buckets {
		total += n
	}
	l.P50, l.P99 = l.below(total/2+total%2), l.below(total-total/100)
}

// below returns the upper end of the bucket in which the one of that rank is, from 1 on.
func (l *Latency) below(rank uint64) int64 {
	var seen uint64
	for i, n := range l.Buckets[:min(len(l.Buckets), len(latencyBounds))] {
		if seen += n; rank > 0 && seen >= rank {
			return latencyBounds[i].Microseconds()
		}
	}
	return 0
}
