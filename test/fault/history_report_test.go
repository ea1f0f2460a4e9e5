package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/test/history"
)

// historyRow is what the histories under one fault have shown.
type historyRow struct {
	servers, fault     string
	rounds             int
	keys, operations   int64
	together           int64 // operations that another one on their key overlapped
	unheard            int64
	refused            int64 // not made, because of a breaker
	untimed, undecided int64 // keys that could not be judged, and whose search was not finished
	impossible         int64
	forgetful          int64 // keys that have lost hits
	lost, bound        int64
	notes              []string
}

// count adds the operations on a key.
func (r *historyRow) count(operations []history.Operation) {
	r.keys++
	r.operations += int64(len(operations))
	byCall := slices.Clone(operations)
	slices.SortFunc(byCall, func(a, b history.Operation) int { return int(a.Call - b.Call) })
	var latest time.Duration
	for i := range byCall {
		if byCall[i].Unknown {
			r.unheard++
		}
		if i > 0 && byCall[i].Call < latest {
			r.together++
		}
		latest = max(latest, byCall[i].Return)
	}
}

// historyTable is the rows so far.
type historyTable []historyRow

// historyRows gathers a row of each fault. Tests add to it one after the other.
var historyRows historyTable

func (t *historyTable) add(r historyRow) { *t = append(*t, r) }

// text returns the table in Markdown, "" without rows.
func (t *historyTable) text() string {
	if len(*t) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nHistories: %d nodes with %d callers each, seed %d, commit %s, %s\n\n", historyNodes, historyClients, begun.seed, *commit, redisVersion())
	b.WriteString("| servers | fault | rounds | keys | operations (overlapping) | unheard | not linearizable | keys that lost hits | hits lost / bound | |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	var sum historyRow
	for _, r := range *t {
		notes := slices.Clone(r.notes)
		if n := r.untimed + r.undecided; n > 0 {
			notes = append(notes, fmt.Sprintf("%d keys not judged", n))
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d (%d) | %d | %d | %d | %d / %d | %s |\n",
			r.servers, r.fault, r.rounds, r.keys, r.operations, r.together, r.unheard, r.impossible, r.forgetful, r.lost, r.bound, strings.Join(notes, "; "))
		sum.rounds, sum.keys, sum.operations = sum.rounds+r.rounds, sum.keys+r.keys, sum.operations+r.operations
		sum.together, sum.unheard, sum.untimed = sum.together+r.together, sum.unheard+r.unheard, sum.untimed+r.untimed+r.undecided
		sum.impossible, sum.lost, sum.bound = sum.impossible+r.impossible, sum.lost+r.lost, sum.bound+r.bound
	}
	fmt.Fprintf(&b, "\n%d rounds, %d histories, %d operations (%d overlapping, %d unheard): %d not linearizable%s; %d hits lost of at most %d; %d keys not judged.\n",
		sum.rounds, sum.keys, sum.operations, sum.together, sum.unheard, sum.impossible, atMost(sum.impossible, sum.keys), sum.lost, sum.bound, sum.untimed)
	return b.String()
}
