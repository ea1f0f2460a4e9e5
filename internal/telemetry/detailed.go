package telemetry

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

const (
	// maxDetailed bounds the names with values of requests, which are as many as there are
	// users, addresses or whatever a rule asks for. What comes after them is counted in one
	// more for each rule.
	maxDetailed = 2000
	// maxDetailedText bounds the text of a level of such a name; a longer one is cut.
	maxDetailedText = 128
	// otherValues stands for the values that have no name of their own.
	otherValues = "other"
)

// detailed counts hits of rules whose statistics show values of requests (detailed_metric,
// value_to_metric), by the path that they have then. The zero value is ready.
type detailed struct {
	// asking are the rules in force that ask for it; nil: none does.
	asking atomic.Pointer[map[*rules.Rule]bool]

	mu    sync.Mutex
	paths map[string]*detailedHits
	other atomic.Uint64 // decisions without a name of their own
	// near is which of their hits are near the limit.
	near nearShare
	// onOther is told of the first of them; nil: nobody is.
	onOther func()
}

type detailedHits struct {
	path []string // with the domain before it
	hits
}

// set finds out which rules ask.
func (d *detailed) set(inForce []*rules.Rule) {
	asking := map[*rules.Rule]bool{}
	for _, r := range inForce {
		if r.ShowsValues() && !r.Unlimited {
			asking[r] = true
		}
	}
	if len(asking) == 0 {
		d.asking.Store(nil)
		return
	}
	d.asking.Store(&asking)
}

// asks reports whether r asks.
func (d *detailed) asks(r *rules.Rule) bool {
	asking := d.asking.Load()
	return asking != nil && (*asking)[r]
}

// note counts a decision by the rules that ask.
func (d *detailed) note(req *headgate.Request, resp *headgate.Response) {
	if req == nil || d.asking.Load() == nil {
		return
	}
	for i := range resp.Verdicts {
		if v := &resp.Verdicts[i]; v.Role == rules.Main && v.Limit != nil && v.Descriptor < len(req.Descriptors) && d.asks(v.Rule) {
			d.count(req, v)
		}
	}
}

func (d *detailed) count(req *headgate.Request, v *headgate.Verdict) {
	path := []string{v.Rule.Domain}
	for _, level := range v.Rule.MetricPath(nil, req.Descriptors[v.Descriptor].Entries, v.Depth) {
		path = append(path, cutText(level))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	id := strings.Join(path, "\x00")
	h := d.paths[id]
	if h == nil && len(d.paths) >= maxDetailed {
		if d.other.Add(1) == 1 && d.onOther != nil {
			d.onOther()
		}
		path = append([]string{v.Rule.Domain}, append(v.Rule.Path(), otherValues)...)
		id = strings.Join(path, "\x00")
		h = d.paths[id]
	}
	if h == nil {
		if d.paths == nil {
			d.paths = map[string]*detailedHits{}
		}
		for i := range path {
			path[i] = strings.Clone(path[i]) // of a request, whose memory is used again
		}
		h = &detailedHits{path: path}
		d.paths[strings.Clone(id)] = h
	}
	h.hits.count(req, v, d.near)
}

// each calls f for each name, in their order.
func (d *detailed) each(f func(path []string, h hits)) {
	d.mu.Lock()
	all := make([]detailedHits, 0, len(d.paths))
	for _, h := range d.paths {
		all = append(all, *h)
	}
	d.mu.Unlock()
	slices.SortFunc(all, func(a, b detailedHits) int { return slices.Compare(a.path, b.path) })
	for _, h := range all {
		f(h.path, h.hits)
	}
}

// cutText bounds a text, and makes it one that a label may hold.
func cutText(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxDetailedText)], "�") }
