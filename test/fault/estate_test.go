package fault

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
)

const (
	// leasedAsked is how many hits of a leased window a machine is asked for at least before it dies, refilledAsked the
	// same of a bucket, and reservedBefore how many reservations it makes.
	leasedAsked, refilledAsked, reservedBefore = 30, 40, 10
	// reservers make reservations while the machine dies.
	reservers = 4
	// reservedHits is what each reserves, and committedHits what it has used in the end.
	reservedHits, committedHits = 3, 2
	// leasesAtMost bounds the leases on one bucket that a node can hold, or be about to.
	leasesAtMost = 3
)

// estate is what a machine holds when it dies, and what its heirs, the other machines, find of it.
type estate struct {
	t      *testing.T
	rig    *machineRig
	client *http.Client // of the proxies
	name   string       // of its keys
	dead   *machine
	heirs  []*machine

	guests, waiting *visitors // who has slots through the machine, and who wants them through its heirs
	used, held      int64     // hits of the leased window
	killed          time.Time

	reserving sync.WaitGroup
	mu        sync.Mutex
	reserved  []string // reservations
	errs      []error

	left left
}

// left is what was left behind.
type left struct {
	firstSlot, allSlots  time.Duration // until the heirs had one, and all, of the slots
	early                int           // slots that the heirs had while the machine held them all and lived
	held                 int64         // leased hits that the machine had not used
	unused, unusedAtMost int64         // hits of the leased window that nobody gets
	beyond               int64         // hits that passed beyond that window's limit
	refilled             time.Duration // until the leased bucket was full again
	reservations         int
	torn                 int           // bytes of a last line that was cut
	ready                time.Duration // until the machine served again, once started
}

// newEstate returns that of one machine.
func (r *machineRig) newEstate(dies int, name string) *estate {
	e := &estate{t: r.t, rig: r, name: name, dead: r.machines[dies], client: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	for _, m := range r.machines {
		if m != e.dead {
			e.heirs = append(e.heirs, m)
		}
	}
	return e
}

func (e *estate) guestPath() string { return "/of-" + e.name }
func (e *estate) heirPath() string  { return "/after-" + e.name }

// fill has the machine hold all slots, leases, and reservations, and make more of these until it dies.
func (e *estate) fill() {
	e.t.Helper()
	e.guests = visit(e.client, slotCount, e.dead.proxied+e.guestPath())
	e.rig.backend.await(e.t, e.guestPath(), slotCount)
	var urls []string
	for _, heir := range e.heirs {
		urls = append(urls, heir.proxied+e.heirPath())
	}
	e.waiting = visit(e.client, slotCount, urls...)
	eventually.True(e.t, "the slots are taken for all others", func() bool { return e.waiting.denials() >= slotCount })

	before := e.dead.held(e.t)
	for e.used < leasedAsked || e.held <= 0 {
		if e.used == leasedQuota/2 {
			e.t.Fatalf("%d hits of a leased window were asked for, and nothing was leased", e.used)
		}
		if a, _ := e.dead.take(e.t, "leased", e.name, 1); !a.Allowed {
			e.t.Fatalf("hit %d of a leased window was denied", e.used+1)
		}
		if e.used++; e.used >= leasedAsked {
			e.held = e.dead.held(e.t) - before
		}
	}
	for range refilledAsked {
		e.dead.take(e.t, "refilled", e.name, 1)
	}
	for i := range reservedBefore {
		e.reserve(fmt.Sprintf("%s-before-%d", e.name, i))
	}
	for i := range reservers {
		e.reserving.Go(func() {
			for n := 0; !e.dead.away.Load(); n++ {
				e.reserve(fmt.Sprintf("%s-%d-%d", e.name, i, n))
				pause(sampling)
			}
		})
	}
}

// reserve reserves by an id, of the machine or, where that does not answer, of its heirs.
func (e *estate) reserve(id string) {
	body := fmt.Sprintf(`{"domain":"fault","id":%q,"descriptors":[{"entries":[{"key":"reserved","value":%q}],"hits":%d}]}`, id, e.name, reservedHits)
	for i, end := 0, time.Now().Add(patience); ; i++ {
		m := e.dead
		if i > 0 {
			m = e.heirs[i%len(e.heirs)]
		}
		a, err := m.ask("/v1/reserve", body, "")
		if err == nil && a.Allowed && a.Degraded == "" && a.Reservation != "" {
			e.mu.Lock()
			e.reserved = append(e.reserved, a.Reservation)
			e.mu.Unlock()
			return
		}
		if time.Now().After(end) {
			e.mu.Lock()
			e.errs = append(e.errs, fmt.Errorf("reserve %s: %+v, %w", id, a, err))
			e.mu.Unlock()
			return
		}
		pause(sampling)
	}
}

// die kills the machine.
func (e *estate) die() {
	e.t.Helper()
	// None, unless a proxy was so late that the slots it held were over before it renewed them.
	e.left.early, _ = e.rig.backend.flying(e.heirPath())
	e.killed = time.Now()
	e.dead.kill()
	e.left.held = e.held
	e.left.torn = e.dead.torn(e.t)
	e.guests.wait() // they were cut off
}

// inherit has the heirs take all that is to be had, and demands that it is no more than there is, and how much less.
func (e *estate) inherit() {
	e.t.Helper()
	e.inheritBucket()
	e.inheritSlots()
	e.inheritWindow()
	e.settle()
	for _, err := range e.errs {
		e.t.Error(err)
	}
}

// inheritBucket waits until the bucket is full again.
func (e *estate) inheritBucket() {
	e.t.Helper()
	eventually.Nil(e.t, "a leased bucket is full again", func() error {
		if a, _ := e.heirs[0].take(e.t, "refilled", e.name, 0); a.Remaining != refillBurst {
			return fmt.Errorf("%d of %d remain", a.Remaining, refillBurst)
		}
		return nil
	})
	e.left.refilled = time.Since(e.killed)
}

// inheritSlots waits until the heirs have all slots, and gives these back.
func (e *estate) inheritSlots() {
	e.t.Helper()
	e.rig.backend.await(e.t, e.heirPath(), slotCount)
	e.rig.backend.letGo()
	for _, err := range e.waiting.wait() {
		e.t.Errorf("a request through another proxy: %v", err)
	}
	_, reached := e.rig.backend.flying(e.heirPath())
	e.left.firstSlot, e.left.allSlots = max(0, reached[0].Sub(e.killed)), max(0, reached[slotCount-1].Sub(e.killed))
	e.client.CloseIdleConnections()
}

// inheritWindow asks the heirs in turn for what is left of the leased window, until none of them gives any.
func (e *estate) inheritWindow() {
	e.t.Helper()
	passed, unheard := e.used, int64(0)
	for before := int64(-1); before != passed; {
		before = passed
		for _, heir := range e.heirs {
			for {
				a, degraded := heir.take(e.t, "leased", e.name, 1)
				if unheard += degraded; !a.Allowed || passed > leasedQuota {
					break
				}
				passed++
			}
		}
	}
	e.left.beyond = max(0, passed-leasedQuota)
	e.left.unused = max(0, leasedQuota-passed)
	e.left.unusedAtMost = leasesAtMost*leasedQuota/(2*machineCount) + unheard
	if e.left.beyond > 0 {
		e.t.Errorf("%d hits of a leased window passed, of %d: a machine with leases died", passed, leasedQuota)
	}
	if e.left.unused > e.left.unusedAtMost {
		e.t.Errorf("%d hits of a leased window are gone with a machine, of at most %d", e.left.unused, e.left.unusedAtMost)
	}
}

// settle settles all reservations at the heirs, each twice.
func (e *estate) settle() {
	e.t.Helper()
	e.reserving.Wait()
	e.left.reservations = len(e.reserved)
	for i, reservation := range e.reserved {
		body := fmt.Sprintf(`{"reservation":%q,"hits":%d}`, reservation, committedHits)
		for turn, want := range []string{"settled", "settled_before"} {
			var a said
			undecided := false
			eventually.Nil(e.t, "settle a reservation", func() (err error) {
				a, err = e.heirs[(i+turn)%len(e.heirs)].ask("/v1/commit", body, "")
				if err == nil && a.Outcome == "undecided" {
					undecided, err = true, fmt.Errorf("undecided")
				}
				return err
			})
			// What was tried again because nobody knew may have been settled the first time.
			if a.Outcome != want && !(undecided && a.Outcome == "settled_before") {
				e.t.Errorf("reservation %d, settled for the %d. time, is %q, want %q", i, turn+1, a.Outcome, want)
			}
		}
	}
	a, _ := e.heirs[0].take(e.t, "reserved", e.name, 0)
	if want := int64(reservedQuota - committedHits*len(e.reserved)); a.Remaining != want {
		e.t.Errorf("%d hits remain after %d reservations were settled, want %d", a.Remaining, len(e.reserved), want)
	}
}

// restart starts the machine again.
func (e *estate) restart() {
	e.t.Helper()
	begin := time.Now()
	e.dead.start()
	e.left.ready = time.Since(begin)
}

// leftRow is what the machines of one scenario have left.
type leftRow struct {
	scenario string
	lefts    []left
	events   eventCounts
	accounts accounts
	chain    string // what the command says of the log of changes
}

// leftTable is the rows so far. Tests add to it one after the other.
type leftTable []leftRow

// text returns the table in Markdown.
func (t *leftTable) text() string {
	if len(*t) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n| fault | machines killed | slots: given before the death, first and all free after (max) | leased window: held by the dead, nobody's / bound (max) | beyond it | leased bucket full after (max) | reservations settled once | events: answered, lost, by one kill at most, oldest | lines cut | twice | quota changes told, lost | chain | serves again after (max) |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i := range *t {
		r := &(*t)[i]
		most, reservations, torn := left{}, 0, 0
		for _, l := range r.lefts {
			most.firstSlot, most.allSlots, most.refilled, most.ready = max(most.firstSlot, l.firstSlot), max(most.allSlots, l.allSlots), max(most.refilled, l.refilled), max(most.ready, l.ready)
			most.early, most.held, most.beyond = most.early+l.early, max(most.held, l.held), max(most.beyond, l.beyond)
			if l.unused >= most.unused {
				most.unused, most.unusedAtMost = l.unused, l.unusedAtMost
			}
			reservations += l.reservations
			if l.torn > 0 {
				torn++
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d, %s, %s | %d, %d / %d | %d | %s | %d of %d | %d, %d, %d, %s | %d | %d | %d, %d | %s | %s |\n",
			r.scenario, len(r.lefts), most.early, rounded(most.firstSlot), rounded(most.allSlots), most.held, most.unused, most.unusedAtMost, most.beyond,
			rounded(most.refilled), reservations, reservations, r.events.answered, r.events.lost, r.events.mostOfOne, rounded(r.events.oldest), torn, r.events.twice,
			len(r.accounts.changed), r.accounts.lost, r.chain, rounded(most.ready))
	}
	return b.String()
}

func (t *leftTable) add(r leftRow) { *t = append(*t, r) }
