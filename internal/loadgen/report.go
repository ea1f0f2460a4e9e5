package loadgen

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/headgate/headgate/rules"
)

// Percentile returns the latency that a share of the answers did not exceed, by the nearest rank;
// 0 without answers.
func (r *Report) Percentile(share float64) time.Duration {
	n := len(r.Took)
	if n == 0 {
		return 0
	}
	return r.Took[min(max(int(math.Ceil(share*float64(n)))-1, 0), n-1)]
}

// TotalAllowed is how many requests were let pass.
func (r *Report) TotalAllowed() (sum int) {
	for _, n := range r.Allowed {
		sum += n
	}
	return sum
}

// Undecided is how many requests say nothing of limits: they were not sent, had no answer that
// decides, or were decided without the store.
func (r *Report) Undecided() int { return r.Unsent + r.Sent - r.Decided + r.Degraded }

// shares are the percentiles that are told.
var shares = []float64{0.5, 0.9, 0.99, 0.999, 1}

func shareName(share float64) string {
	if share == 1 {
		return "max"
	}
	return "p" + strconv.FormatFloat(100*share, 'g', -1, 64)
}

// maxTold bounds the buckets that a text names.
const maxTold = 10

// WriteText writes r for people. judged says that there were rules to hold it against.
func WriteText(w io.Writer, o Options, r *Report, judged bool, buckets []Bucket) {
	fmt.Fprintf(w, "sent       %d in %v, %s at %v/s, of %s", r.Sent, r.Lasted.Round(time.Millisecond), o.Shape, o.Rate, rules.CountText(o.Keys, "key"))
	if o.Hot > 0 {
		fmt.Fprintf(w, ", %v of them to the first besides", o.Hot)
	}
	fmt.Fprintln(w)
	if r.Unsent > 0 {
		fmt.Fprintf(w, "not sent   %d, because %d were under way\n", r.Unsent, o.UnderWay)
	}
	fmt.Fprint(w, "answers    ")
	for i, code := range slices.Sorted(maps.Keys(r.Codes)) {
		if i > 0 {
			fmt.Fprint(w, ", ")
		}
		fmt.Fprintf(w, "%s: %d", code, r.Codes[code])
	}
	fmt.Fprintf(w, "\nallowed    %d of %d", r.TotalAllowed(), r.Decided)
	if r.Degraded > 0 {
		fmt.Fprintf(w, "; for %d of them the store did not decide", r.Degraded)
	}
	if r.Unmatched > 0 {
		fmt.Fprintf(w, "; no rule is for %d of them", r.Unmatched)
	}
	fmt.Fprintln(w)
	writeLatency(w, r)
	switch {
	case judged && r.Degraded > 0:
		fmt.Fprintln(w, "bounds     not judged, because the store did not decide all")
	case judged:
		writeBounds(w, buckets)
	}
}

// writeLatency writes nothing where nothing was decided: there was no wait that could be told.
func writeLatency(w io.Writer, r *Report) {
	if len(r.Took) == 0 {
		return
	}
	fmt.Fprint(w, "latency    ")
	for i, share := range shares {
		if i > 0 {
			fmt.Fprint(w, ", ")
		}
		fmt.Fprintf(w, "%s %v", shareName(share), r.Percentile(share).Round(10*time.Microsecond))
	}
	fmt.Fprintln(w, ", from when each was to be sent")
}

func writeBounds(w io.Writer, buckets []Bucket) {
	broken := 0
	for broken < len(buckets) && buckets[broken].Broken() {
		broken++
	}
	fmt.Fprintf(w, "bounds     %d of %d buckets broken\n", broken, len(buckets))
	for _, b := range buckets[:min(broken, maxTold)] {
		fmt.Fprintf(w, "  rule %s, %s: %d hits passed, at most %d may, by %s\n", b.Rule, b.Key, b.Passed, b.Most, b.Limit)
	}
	if broken > maxTold {
		fmt.Fprintf(w, "  and %d more\n", broken-maxTold)
	}
}

// Document is r for programs, as JSON: latencies in microseconds, and the buckets that are broken.
func Document(o Options, r *Report, buckets []Bucket) map[string]any {
	type broken struct {
		Rule   string `json:"rule"`
		Limit  string `json:"limit"`
		Key    string `json:"key"`
		Passed int64  `json:"passed"`
		Most   int64  `json:"most"`
	}
	latency, over := map[string]int64{}, []broken{}
	for _, share := range shares {
		latency[shareName(share)] = r.Percentile(share).Microseconds()
	}
	for _, b := range buckets {
		if b.Broken() {
			over = append(over, broken(b))
		}
	}
	return map[string]any{
		"shape": o.Shape, "rate": o.Rate, "keys": o.Keys, "hot": o.Hot, "seed": o.Seed, "lasted_ms": r.Lasted.Milliseconds(),
		"sent": r.Sent, "unsent": r.Unsent, "answers": r.Codes, "decided": r.Decided, "degraded": r.Degraded, "unmatched": r.Unmatched, "allowed": r.TotalAllowed(),
		"latency_us": latency, "judged": len(buckets), "broken": over,
	}
}
