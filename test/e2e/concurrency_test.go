package e2e

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// ledger is what holders have told, by the test's own count.
type ledger struct {
	t  *testing.T
	mu sync.Mutex
	// slots are all that were ever held, live those of each process that it holds
	// for long and has not ended.
	slots  map[string]*slot
	live   map[int]map[string]bool
	denied int
	late   int
	errors []string
}

// slot was surely held in [from, until), in microseconds.
type slot struct{ process, renewals, from, until int64 }

func newLedger(t *testing.T) *ledger {
	return &ledger{t: t, slots: map[string]*slot{}, live: map[int]map[string]bool{}}
}

func (l *ledger) note(process int, e *holderEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.slots[e.ID]
	switch e.What {
	case "held":
		l.slots[e.ID] = &slot{process: int64(process), from: e.From, until: e.Until}
		if e.Long {
			l.live[process][e.ID] = true
		}
	case "renewed":
		s.renewals++
		s.until = e.Until
	case "released":
		s.until = min(s.until, e.Until)
		delete(l.live[process], e.ID)
	case "late":
		l.late++
		delete(l.live[process], e.ID)
	case "denied":
		l.denied++
	default:
		l.errors = append(l.errors, fmt.Sprintf("holder %d: %+v", process, e))
	}
}

// holds returns how many slots a process holds for long, and the fewest renewals
// of one of them.
func (l *ledger) holds(process int) (slots int, renewals int64) {
	renewals = 1 << 62
	for id := range l.live[process] {
		renewals = min(renewals, l.slots[id].renewals)
	}
	return len(l.live[process]), renewals
}

// most returns the most slots that were surely held at one instant.
func (l *ledger) most() int {
	type edge struct {
		at   int64
		step int
	}
	var edges []edge
	for _, s := range l.slots {
		if s.from < s.until {
			edges = append(edges, edge{s.from, 1}, edge{s.until, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step)) })
	held, most := 0, 0
	for _, e := range edges {
		held += e.step
		most = max(most, held)
	}
	return most
}

// until waits for what the holders tell.
func (l *ledger) until(what string, ready func() bool) {
	l.t.Helper()
	eventually.True(l.t, what, func() bool {
		l.mu.Lock()
		done, errors := ready(), l.errors
		l.mu.Unlock()
		if len(errors) > 0 {
			l.t.Fatalf("%s: %s", what, errors[0])
		}
		return done
	})
}

// holderProcess is a holder that runs.
type holderProcess struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when all that it told is noted
}

// start runs holder number process.
func (l *ledger) start(process int, o orders) *holderProcess {
	l.t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		l.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	l.live[process] = map[string]bool{}
	l.mu.Unlock()
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	h := &holderProcess{cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(h.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e holderEvent
			if json.Unmarshal(lines.Bytes(), &e) == nil { // the last line of one that was killed may be cut
				l.note(process, &e)
			}
		}
	}()
	l.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-h.ended
		_ = cmd.Wait()
	})
	return h
}

// kill ends a holder as a crash does.
func (h *holderProcess) kill(t *testing.T) {
	t.Helper()
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-h.ended
}

// Three processes of Headgate on one Redis share the slots of a user among worker
// processes that ask for more than there are. One worker is killed: its slots come
// back after their timeout, and not before; and never, by the clock of Redis, are
// more in flight than the limit.
func TestSlotsOfAKilledHolderComeBack(t *testing.T) {
	t.Parallel()
	const slots, timeout = 20, 3 * time.Second
	redis := testserver.Redis(t, testserver.RedisConfig{})
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, fmt.Appendf(nil, `
domain: api
match: path
descriptors:
- {key: user, failure_mode: closed, concurrency: {limit: %d, timeout: %v}}
`, slots, timeout), 0o600); err != nil {
		t.Fatal(err)
	}
	o := orders{
		Redis: redis.Addr, Timeout: timeout,
		Body: `{"domain":"api","descriptors":[{"descriptor":"user:u"}],"hold":"%s"}`,
	}
	var fleet [3]*node
	for i := range fleet {
		fleet[i] = startNode(t, "--store", redis.URL(), "--store-budget", "10s", "--rules", rules)
		o.Sockets = append(o.Sockets, fleet[i].socket)
	}
	l := newLedger(t)
	with := func(long, short int) orders {
		of := o
		of.Long, of.Short = long, short
		return of
	}
	victim := l.start(0, with(8, 0))
	others := []*holderProcess{l.start(1, with(4, 4)), l.start(2, with(4, 4))}
	l.until("the workers hold 16 slots for long, renew them, and are denied more", func() bool {
		held, renewals := l.holds(0)
		one, _ := l.holds(1)
		two, _ := l.holds(2)
		return held == 8 && one == 4 && two == 4 && renewals >= 1 && l.denied > 0
	})
	victim.kill(t)

	// Until the slots of the victim end there are 12 for the others, of which 8 are
	// held for long: the heir of all that it held must wait.
	others = append(others, l.start(3, with(12, 0)))
	l.until("all slots are held by those who live", func() bool {
		one, _ := l.holds(1)
		two, _ := l.holds(2)
		heir, _ := l.holds(3)
		return one+two+heir == slots && l.most() >= slots
	})
	for _, h := range others {
		if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for i, h := range others {
		<-h.ended
		if err := h.cmd.Wait(); err != nil {
			t.Errorf("holder %d: %v", i+1, err)
		}
	}
	most := 0
	l.until("nothing went wrong", func() bool { most = l.most(); return true })
	if most != slots {
		t.Errorf("%d were in flight at one time, want %d and not one more", most, slots)
	}
	if a, err := fleet[0].check(`{"domain":"api","descriptors":[{"descriptor":"user:u","hits":0}]}`); err != nil || a.Remaining != slots {
		t.Errorf("%d slots are free after all was released, error %v", a.Remaining, err)
	}
	t.Logf("%d slots were held, %d requests denied, %d renewals late", len(l.slots), l.denied, l.late)
}
