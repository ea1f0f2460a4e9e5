package recommend

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/headgate/headgate/limit"
)

// Row is what is told of one limit of a rule.
type Row struct {
	Rule string `json:"rule"`
	// Limit says what the limit is, in words. Quota is its quota, Burst the burst of one that has it.
	Limit string `json:"limit"`
	Quota int64  `json:"quota"`
	Burst int64  `json:"burst,omitempty"`
	// Recommended is the quota that is recommended, 0 where Why says why there is none, and
	// RecommendedBurst what the burst is then.
	Recommended      int64  `json:"recommended,omitempty"`
	RecommendedBurst int64  `json:"recommended_burst,omitempty"`
	Why              string `json:"why,omitempty"`
	// Scheduled says that the rule has a schedule, which is not applied.
	Scheduled bool `json:"scheduled,omitempty"`
	// Requests asked for hits, for Keys of which KeysKnown were looked at, one in OneIn.
	Requests  int64 `json:"requests"`
	Keys      int64 `json:"keys"`
	KeysKnown int64 `json:"keys_known"`
	OneIn     int64 `json:"one_in"`
	// Needs are percentiles over the keys that are known of what each needed.
	Needs Needs `json:"needs"`
	// Needed is what all keys but the share that may be hit needed, without head-room.
	Needed int64 `json:"needed"`
	// Now is what the present limit does, and Then what the recommended one does.
	Now  *Effect `json:"now,omitempty"`
	Then *Effect `json:"then,omitempty"`
}

// Needs are percentiles by the nearest rank.
type Needs struct {
	P50 int64 `json:"p50"`
	P90 int64 `json:"p90"`
	P95 int64 `json:"p95"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

// Effect is whom a limit denies something, of the keys that it was tried on.
type Effect struct {
	Keys       int64 `json:"keys"`
	KeysHit    int64 `json:"keys_hit"`
	OneIn      int64 `json:"one_in"`
	Requests   int64 `json:"requests"`
	Denied     int64 `json:"denied"`
	KeysMargin int64 `json:"keys_margin_millionths,omitempty"`
}

// NeedsOf returns percentiles of what was asked.
func NeedsOf(s *Seen) Needs {
	return Needs{P50: s.Percentile(50), P90: s.Percentile(90), P95: s.Percentile(95), P99: s.Percentile(99), Max: s.Percentile(100)}
}

// BurstOf returns the burst of limits that have one of their own, 0 of others.
func BurstOf(l *limit.Limit) int64 {
	switch l.Algorithm {
	case limit.TokenBucket, limit.GCRA:
		return l.Burst
	}
	return 0
}

// EffectOf returns what a Proof has found.
func EffectOf(f Found) *Effect {
	return &Effect{Keys: f.Keys, KeysHit: f.KeysDenied, OneIn: f.Sample.OneIn(), Requests: f.Requests, Denied: f.Denied, KeysMargin: f.Sample.Margin(f.KeysDenied, f.Keys)}
}

// Changes reports whether another limit is recommended than there is.
func (r *Row) Changes() bool {
	return r.Recommended != 0 && (r.Recommended != r.Quota || r.RecommendedBurst != r.Burst)
}

// Report is a recommendation for each limit.
type Report struct {
	// HeadRoom is how much more than was needed is recommended, and MayHit which share of keys
	// may be hit: see Wish.
	HeadRoom int64 `json:"head_room_thousandths"`
	MayHit   int64 `json:"may_hit_thousandths_of_percent"`
	Rows     []Row `json:"limits"`
}

// WriteText writes r as a table.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "keys\tp50\tp90\tp95\tp99\tmax\tnow\tkeys hit\tdenied\trecommended\tkeys hit\tdenied\t  rule\n")
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Requests == 0 {
			continue
		}
		n := &row.Needs
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t", about(row.Keys, row.OneIn), n.P50, n.P90, n.P95, n.P99, n.Max, row.Quota, row.Now.keysText(), row.Now.deniedText())
		fmt.Fprintf(t, "%s\t%s\t%s\t  %s, %s\n", row.recommendedText(), row.Then.keysText(), row.Then.deniedText(), row.Rule, row.Limit)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.writeNotes(w)
}

// about writes a number of keys, which is an estimate where they are a sample.
func about(n, oneIn int64) string {
	if oneIn > 1 {
		return fmt.Sprintf("~%d", n)
	}
	return fmt.Sprint(n)
}

func (r *Row) recommendedText() string {
	if r.Recommended == 0 {
		return "-"
	}
	return fmt.Sprint(r.Recommended)
}

func (e *Effect) keysText() string {
	if e == nil {
		return "-"
	}
	return shareText(e.KeysHit, e.Keys)
}

func (e *Effect) deniedText() string {
	if e == nil {
		return "-"
	}
	return shareText(e.Denied, e.Requests)
}

// writeNotes says what the table has no room for.
func (r *Report) writeNotes(w io.Writer) error {
	var notes []string
	unused := 0
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Requests == 0 {
			unused++
			continue
		}
		for _, note := range row.Notes(r.MayHit) {
			notes = append(notes, row.Rule+", "+row.Limit+": "+note)
		}
	}
	if unused > 0 {
		notes = append(notes, fmt.Sprintf("nothing was asked of %d of %d limits", unused, len(r.Rows)))
	}
	for _, note := range notes {
		if _, err := fmt.Fprintf(w, "\nnote: %s\n", note); err != nil {
			return err
		}
	}
	return nil
}

// Notes say what the numbers of r do not, in sentences without a capital; mayHit is that of the report.
func (r *Row) Notes(mayHit int64) (notes []string) {
	if r.Why != "" {
		notes = append(notes, "nothing is recommended: "+r.Why)
	}
	switch {
	case r.OneIn > 1 && r.KeysKnown == 0: // others have asked, and these were only charged
		notes = append(notes, fmt.Sprintf("one key in %d was looked at, and none of these asked for anything", r.OneIn))
	case r.OneIn > 1:
		notes = append(notes, fmt.Sprintf("one key in %d was looked at, so that the number of keys is known to %s, and the largest need may be larger", r.OneIn, millionthsText(1000*root(r.KeysKnown))))
	}
	if r.Scheduled {
		notes = append(notes, "its schedule is not applied: needs are those of all times, and the quota is one without a factor")
	}
	e := r.Then
	if e == nil {
		return notes
	}
	if e.OneIn > 1 {
		notes = append(notes, fmt.Sprintf("the shares are those of one key in %d; that of keys hit is known to %s", e.OneIn, millionthsText(e.KeysMargin)))
	}
	if e.KeysHit*100_000 > e.Keys*mayHit {
		notes = append(notes, "more keys are hit than may be, because its algorithm denies what a sliding window of that quota lets pass")
	}
	if r.RecommendedBurst != r.Burst {
		notes = append(notes, fmt.Sprintf("the burst is %d then, in place of %d", r.RecommendedBurst, r.Burst))
	}
	return notes
}

// root returns two over the root of n, which is not 0: how well n keys of a sample tell how many there
// are, in thousandths, rounded up.
func root(n int64) int64 {
	tell := int64(0)
	for tell*tell*n < 4*million {
		tell++
	}
	return tell
}

// shareText writes a share in per cent, rounded up so that a little is never nothing.
func shareText(n, of int64) string {
	if of == 0 {
		return "-"
	}
	return millionthsText(scaled(n, million, of))
}

// millionthsText writes millionths as per cent: with three decimals below one, else with two.
func millionthsText(n int64) string {
	switch {
	case n == 0:
		return "0 %"
	case n < 10_000:
		return fmt.Sprintf("0.%03d %%", (n+9)/10)
	}
	n = (n + 99) / 100
	return fmt.Sprintf("%d.%02d %%", n/100, n%100)
}
