package fault

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/internal/testserver"
)

// What `make fault` sets; the defaults are the short half of the suite.
var (
	long      = flag.Bool("long", false, "run all scenarios, with more tries, for longer and at a higher rate")
	tries     = flag.Int("tries", 0, "faults in each scenario; 0 means 1, with -long 5")
	killTries = flag.Int("kills", 0, "kills of a primary in the loops; 0 means 1, with -long 10")
	nodeKills = flag.Int("nodekills", 0, "kills of a node in the loop; 0 means 1, with -long 20")
	decisions = flag.Int64("decisions", 0, "each scenario goes on with its faults until it has so many decisions; 0 means that the number of faults is the end")
	rate      = flag.Int("rate", 0, "checks per second and scenario; 0 means 300, with -long 4000")
	seed      = flag.Uint64("seed", 0, "seed of the instants at which faults begin and end; 0 draws one")
	commit    = flag.String("commit", "unknown", "what was built, for the table")
	tableFile = flag.String("table", "", "file that the table is written to, beside the output")
)

// begun is what the command line asked for, with its defaults filled in.
var begun struct {
	at            time.Time
	seed          uint64
	tries, kills  int
	nodeKills     int
	rate, workers int
	decisions     int64         // of each scenario, at least
	length        time.Duration // of a fault, which is up to twice that
	budget        time.Duration // of a decision
}

// The table gathers a row of each scenario.
var results table

// leftovers are what nodes that were killed have left behind.
var leftovers leftTable

// reseedings are those with and without re-seeding, side by side.
var reseedings reseedTable

func TestMain(m *testing.M) {
	flag.Parse()
	begun.at = time.Now()
	// The short half runs beside other tests: what it demands is true of any load.
	begun.tries, begun.kills, begun.nodeKills, begun.rate, begun.workers = 1, 1, 1, 300, 8
	begun.length, begun.budget = 300*time.Millisecond, 100*time.Millisecond
	if *long {
		begun.tries, begun.kills, begun.nodeKills, begun.rate, begun.workers = 5, 10, 20, 4000, 64
		begun.length, begun.budget = time.Second, 20*time.Millisecond
	}
	for _, given := range []struct {
		flag, value *int
	}{{tries, &begun.tries}, {killTries, &begun.kills}, {nodeKills, &begun.nodeKills}, {rate, &begun.rate}} {
		if *given.flag > 0 {
			*given.value = *given.flag
		}
	}
	if begun.seed = *seed; begun.seed == 0 {
		begun.seed = uint64(time.Now().UnixNano())
	}
	begun.decisions = *decisions
	code := testserver.Run(m)
	if text := results.text() + leftovers.text() + reseedings.text() + historyRows.text(); text != "" {
		fmt.Println(text)
		if *tableFile != "" {
			if err := os.WriteFile(*tableFile, []byte(text), 0o644); err != nil {
				fmt.Fprintln(os.Stderr, "write the table:", err)
				code = 1
			}
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left over:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// newRand returns a source of the run's seed for the scenario of that name, so
// that each scenario draws the same whether others run or not.
func newRand(name string) *rand.Rand {
	var mix uint64
	for _, b := range []byte(name) {
		mix = mix*31 + uint64(b)
	}
	return rand.New(rand.NewPCG(begun.seed, mix))
}

// pause waits for d, which is the length of a fault or of the calm between two.
// It is the only thing here that takes time for its own sake.
func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
