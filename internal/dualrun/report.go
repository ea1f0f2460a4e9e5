package dualrun

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/headgate/headgate/internal/view"
)

const (
	// maxExamples bounds the examples of each cause, the newest of which are kept.
	maxExamples = 10
	// maxPlaces bounds the places that are told apart; what differs elsewhere is counted in
	// one more.
	maxPlaces = 200
	// elsewhere is that one.
	elsewhere = "(others)"
	// enough is how many answers have to be compared for a verdict.
	enough = 1000
	// tolerated is the share of answers that may decide otherwise because requests come
	// together: one in a thousand.
	tolerated = 0.001
)

// Report is what a dual run has found.
type Report struct {
	// Of names the old service, Since says when the dual run began, and At is now.
	Of    string    `json:"of"`
	Since time.Time `json:"since"`
	At    time.Time `json:"at"`
	view.DualRunCounts
	// Causes are how many answers differ by each cause, in whole or in part.
	Causes map[Cause]uint64 `json:"causes"`
	// Places are where answers differ, those with the most first.
	Places []view.DualRunPlace `json:"places"`
	// Examples are the newest of each cause.
	Examples []view.DualRunExample `json:"examples"`
	// Verdict is what to make of it: one of Wait, Look and Go, and Why says why.
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"`
}

// Verdict is what to do.
type Verdict string

const (
	// Wait: too little was compared.
	Wait Verdict = "wait"
	// Look: something differs that is not chance.
	Look Verdict = "look"
	// Go: what differs is as little as requests that come together make it.
	Go Verdict = "go"
)

// place is where an answer differs.
type place struct {
	domain, keys string
	cause        Cause
}

// tally keeps a report. It is safe for concurrent use.
type tally struct {
	of    string
	start time.Time
	// hash returns the hash of a descriptor in a domain.
	hash func(domain string, d string) string

	mu       sync.Mutex
	sums     Report // its counts
	places   map[place]uint64
	examples map[Cause][]view.DualRunExample
}

// add takes note of two answers to a request.
func (t *tally) add(req *rlsv3.RateLimitRequest, theirs, ours *rlsv3.RateLimitResponse, now time.Time) {
	d := compare(theirs, ours, t.start, now)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sums.Compared++
	if theirs.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT {
		t.sums.OldDenied++
	}
	if ours.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT {
		t.sums.OwnDenied++
	}
	if d.cause == Same {
		return
	}
	if d.decides {
		t.sums.Different++
	} else {
		t.sums.DifferentInPart++
	}
	keys, text := describe(req, d.descriptor)
	at := place{cut(req.GetDomain()), keys, d.cause}
	if _, known := t.places[at]; !known && len(t.places) >= maxPlaces {
		at = place{elsewhere, elsewhere, d.cause}
	}
	t.places[at]++
	examples := append(t.examples[d.cause], view.DualRunExample{
		At: now.UTC(), Cause: string(d.cause), Domain: at.domain, Keys: at.keys, Hash: t.hash(req.GetDomain(), text), Decides: d.decides,
		Old: say(theirs, d.descriptor), Own: say(ours, d.descriptor),
	})
	t.examples[d.cause] = examples[max(len(examples)-maxExamples, 0):]
}

// count adds to one of the sums that are of no comparison.
func (t *tally) count(sum func(*Report) *uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*sum(&t.sums)++
}

// describe returns the keys of a descriptor and its text, of the first one where there is no
// such index.
func describe(req *rlsv3.RateLimitRequest, i int) (keys, text string) {
	if i = max(i, 0); i >= len(req.GetDescriptors()) {
		return "", ""
	}
	var names []string
	var all strings.Builder
	for _, e := range req.GetDescriptors()[i].GetEntries() {
		names = append(names, cut(e.GetKey()))
		fmt.Fprintf(&all, "%d:%s%d:%s", len(e.GetKey()), e.GetKey(), len(e.GetValue()), e.GetValue())
	}
	return cut(strings.Join(names, ",")), all.String()
}

// maxKeys bounds a text of keys.
const maxKeys = 256

func cut(s string) string {
	if len(s) > maxKeys {
		return strings.ToValidUTF8(s[:maxKeys], "") + "…"
	}
	return s
}

// report returns what was found by now.
func (t *tally) report(now time.Time) Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.sums
	r.Of, r.Since, r.At = t.of, t.start.UTC(), now.UTC()
	r.Causes = map[Cause]uint64{}
	r.Places, r.Examples = []view.DualRunPlace{}, []view.DualRunExample{}
	for at, n := range t.places {
		r.Causes[at.cause] += n
		r.Places = append(r.Places, view.DualRunPlace{Domain: at.domain, Keys: at.keys, Cause: string(at.cause), Count: n})
	}
	slices.SortFunc(r.Places, func(a, b view.DualRunPlace) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Keys, b.Keys), cmp.Compare(a.Cause, b.Cause))
	})
	for _, cause := range slices.Sorted(maps.Keys(t.examples)) {
		r.Examples = append(r.Examples, t.examples[cause]...)
	}
	r.Verdict, r.Why = r.judge()
	return r
}

// judge says what to make of the counts.
func (r *Report) judge() (Verdict, string) {
	share := float64(r.Different) / float64(max(r.Compared, 1))
	switch {
	case r.Compared < enough:
		return Wait, fmt.Sprintf("%d answers were compared; hint: %d at least, over the longest window of the rules", r.Compared, enough)
	case r.Causes[Limit] > 0 || r.Causes[Shape] > 0:
		return Look, fmt.Sprintf("the limits of %d answers are not the same; hint: see places of the cause limit, and compare the rules", r.Causes[Limit]+r.Causes[Shape])
	case r.Causes[Start] > 0 && r.Different <= r.Causes[Start]:
		return Wait, fmt.Sprintf("%d answers differ because windows had begun before this process; hint: wait for their end, and start anew", r.Different)
	case share > tolerated:
		return Look, fmt.Sprintf("%.2f %% of the answers decide otherwise (%s); hint: see the examples", 100*share, r.causes())
	case r.OwnFailed > r.Compared/enough:
		return Look, fmt.Sprintf("%d decisions of Headgate failed; hint: its log says why", r.OwnFailed)
	case r.Different == 0:
		return Go, fmt.Sprintf("all of %d answers decide alike", r.Compared)
	}
	return Go, fmt.Sprintf("%d of %d answers decide otherwise (%s), which requests that come together explain", r.Different, r.Compared, r.causes())
}

// causes are the counts of the causes as text.
func (r *Report) causes() string {
	var all []string
	for _, c := range Causes() {
		if n := r.Causes[c]; n > 0 {
			all = append(all, fmt.Sprintf("%s: %d", c, n))
		}
	}
	return strings.Join(all, ", ")
}
