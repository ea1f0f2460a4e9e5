package fault

import (
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// row is what one scenario has shown.
type row struct {
	scenario string
	mode     string // the failure mode
	tries    int    // faults
	counts          // of all key sets
	hiccups  int64  // degraded when there was no fault
	failed   int64
	wrong    int64 // denied though below the limit
	slow     int64 // calls that took a second longer than their budget
	excess   int64 // passed beyond the limit
	byStore  int64 // the same of the answers of the store alone
	bound    int64 // on byStore: what the store can have forgotten
	reseeded uint64
	late     int64 // charged by the store, and not answered by it
	lost     int64 // answered by the store, and not charged
	heal     []time.Duration
	outage   []time.Duration
	p99      time.Duration // of a decision during the fault
	calm     time.Duration // the same without one
	worst    time.Duration
	most     int // goroutines
	notes    []string
}

// decisions is the number of answers.
func (r *row) decisions() int64 { return r.allowed + r.denied + r.degraded() }

// table is the rows so far.
type table struct {
	mu   sync.Mutex
	rows []row
}

func (t *table) add(r row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, r)
}

// text returns the table in Markdown, with what it was measured with; "" without
// rows.
func (t *table) text() string {
	if len(t.rows) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, commit %s, %s on %s/%s with %d processors, %s\n\n", begun.at.UTC().Format("2006-01-02 15:04"), *commit,
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), redisVersion())
	fmt.Fprintf(&b, "seed %d, %d workers, %d checks/s, %d tries of each fault (%d kills of a primary in a loop, %d of nodes), %s in all\n\n",
		begun.seed, begun.workers, begun.rate, begun.tries, begun.kills, begun.nodeKills, time.Since(begun.at).Round(time.Second))
	b.WriteString("| scenario | mode | faults | decisions | failed | degraded (calm) | wrongly denied | over-admitted | by the store / bound | brought back | charged late | lost | outage max | heal max | p99 (calm) | max | goroutines | |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	var sum row
	for i := range t.rows {
		r := &t.rows[i]
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d (%d) | %d | %d | %d / %d | %d | %d | %d | %s | %s | %s (%s) | %s | %s | %s |\n",
			r.scenario, r.mode, r.tries, r.decisions(), r.failed, r.degraded(), r.hiccups, r.wrong, r.excess, r.byStore, r.bound, r.reseeded, r.late, r.lost,
			rounded(longest(r.outage)), rounded(longest(r.heal)), rounded(r.p99), rounded(r.calm), rounded(r.worst), counted(r.most), strings.Join(r.notes, "; "))
		sum.counts.add(r.counts)
		sum.tries, sum.failed, sum.wrong = sum.tries+r.tries, sum.failed+r.failed, sum.wrong+r.wrong
		sum.slow += r.slow
		sum.byStore, sum.bound = sum.byStore+r.byStore, sum.bound+r.bound
	}
	fmt.Fprintf(&b, "\n%d faults, %d decisions: %d failed calls%s, %d wrongly denied%s, %d slow calls; let pass by the store beyond the limits: %d of at most %d.\n",
		sum.tries, sum.decisions(), sum.failed, atMost(sum.failed, sum.decisions()), sum.wrong, atMost(sum.wrong, sum.decisions()),
		sum.slow, sum.byStore, sum.bound)
	return b.String()
}

// counted writes a count, or a dash where nobody has counted.
func counted(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// redisVersion returns what the server says of itself.
func redisVersion() string {
	out, err := exec.Command("redis-server", "--version").Output()
	fields := strings.Fields(string(out))
	if err != nil || len(fields) < 3 {
		return "an unknown Redis"
	}
	return "Redis " + strings.TrimPrefix(fields[2], "v=")
}

// atMost is the upper bound, at 95 %, of a share of which none was seen in n.
func atMost(seen, n int64) string {
	if seen > 0 || n == 0 {
		return ""
	}
	return fmt.Sprintf(" (95 %% upper bound %.1e)", 3/float64(n))
}

func longest(durations []time.Duration) time.Duration {
	var most time.Duration
	for _, d := range durations {
		most = max(most, d)
	}
	return most
}

// rounded writes a duration in two or three digits.
func rounded(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
