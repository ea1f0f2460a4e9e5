package fault

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store/redisstore"
)

const (
	// reseedKeys are the keys of each fleet, enough for some to be in every shard.
	reseedKeys = 60
	// used is how many hits of each key pass before the store forgets them, and known
	// how many of these the replica is told of.
	used, known = 15, 5
)

// forgetful is an event in which a store forgets what it has answered.
type forgetful struct {
	name    string
	options redisstore.Options
	// lag, if not nil, is called after the first known hits: the replica hears of
	// no more. lose makes the store forget, and returns when it serves again;
	// restore makes all as it was.
	lag, lose, restore func()
}

// side is a fleet of nodes, and what it let pass.
type side struct {
	nodes  []*headgate.Limiter
	stores []*redisstore.Store
	keys   []*tally
	order  []int // of the nodes, for each key
}

// openSide opens a fleet that remembers that many buckets on each node.
func openSide(t *testing.T, o redisstore.Options, remembered int) *side {
	t.Helper()
	o.Remembered, o.Budget = remembered, patientBudget
	s := &side{}
	for range fleet {
		node, shared := openNode(t, o, ruleMode{failure: failClosed}, new(listener))
		s.nodes, s.stores = append(s.nodes, node), append(s.stores, shared)
	}
	return s
}

// ask takes a hit of each key, from the nodes in turn. A hit
// that a busy machine did not answer in time may have been charged: it is asked for
// again, which makes the limit stricter.
func (s *side) ask(t *testing.T, turn int) {
	t.Helper()
	for i, key := range s.keys {
		if ask(t, s.nodes[(turn+s.order[i])%fleet], asked{"over", key}, 1).Allowed {
			key.allowed++
		}
	}
}

// measure lets the store forget, under one fleet that remembers and one that does
// not, and adds a row.
func (e forgetful) measure(t *testing.T) {
	t.Helper()
	random := newRand(e.name)
	row := reseedRow{event: e.name}
	with, without := openSide(t, e.options, 0), openSide(t, e.options, -1)
	for try := range begun.tries {
		for name, s := range []*side{with, without} {
			s.keys, s.order = nil, nil
			for i := range reseedKeys {
				s.keys = append(s.keys, &tally{value: fmt.Sprintf("reseed %d-%d-%d", name, try, i)})
				s.order = append(s.order, random.IntN(fleet))
			}
		}
		for turn := range used {
			if turn == known && e.lag != nil {
				e.lag()
			}
			with.ask(t, turn)
			without.ask(t, turn)
		}
		e.lose()
		for i := range with.keys {
			row.before += with.keys[i].allowed
			row.beforeWithout += without.keys[i].allowed
			// Half of the keys are first asked for by the node that was not the
			// last one, and so knows one hit less.
			turn := random.IntN(fleet)
			with.order[i], without.order[i] = turn, turn
		}
		for turn := range 2 * quota {
			with.ask(t, turn)
			without.ask(t, turn)
		}
		for i := range with.keys {
			row.keys++
			excess := max(0, with.keys[i].allowed-quota)
			// The nodes ask in turn: each lacks at most the last hit of each other.
			if excess > fleet-1 {
				t.Errorf("key %d: %d hits passed beyond the limit of %d; the nodes knew of all but %d", i, excess, quota, fleet-1)
			}
			row.with += excess
			row.bound += fleet - 1
			row.without += max(0, without.keys[i].allowed-quota)
		}
		if e.restore != nil {
			e.restore()
		}
	}
	for _, shared := range with.stores {
		for _, shard := range shared.Stats().Shards {
			row.reseeded += shard.Reseeded
		}
	}
	row.tries = begun.tries
	if row.without == 0 {
		t.Error("nothing passed beyond the limits of the nodes that remember nothing: the store has forgotten nothing")
	}
	if row.reseeded == 0 {
		t.Error("nothing was brought back")
	}
	t.Logf("%+v", row)
	reseedings.add(row)
}

// A Redis that is killed and started again has lost all counts.
//
//promise:brought-back
func TestReseedRestart(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	forgetful{
		name: "one Redis is killed and starts empty", options: redisstore.Options{Addr: server.Addr},
		lose: server.Restart,
	}.measure(t)
}

// A replica takes over that was cut off from its primary some time before that died.
//
//promise:brought-back
func TestReseedSentinel(t *testing.T) {
	servers, options := openSentinel(t)
	var killed *testserver.RedisServer
	forgetful{
		name: "Sentinel: a replica that lags takes over", options: options,
		lag: func() { servers.WaitForPrimary(nil).CutReplicas() },
		lose: func() {
			killed = servers.KillPrimary()
			servers.WaitForPrimary(killed)
		},
		restore: func() { servers.Restart(killed) },
	}.measure(t)
}

// The same in one shard of a cluster; the keys of the others lose nothing.
//
//promise:brought-back
func TestReseedCluster(t *testing.T) {
	if !*long {
		t.Skip("only with -long")
	}
	c := openCluster(t, soon())
	const shard = 0
	var killed *testserver.RedisServer
	forgetful{
		name: "Cluster: a replica that lags takes over one of three shards", options: c.options,
		lag: func() { c.SlotOwner(c.FirstSlot(shard)).CutReplicas() },
		lose: func() {
			killed = c.KillPrimary(shard)
			c.WaitForPrimary(c.FirstSlot(shard), killed)
		},
		restore: func() { c.Restart(killed) },
	}.measure(t)
}

// reseedRow is what one such event has shown.
type reseedRow struct {
	event                 string
	tries                 int
	keys                  int64 // of each fleet
	before, beforeWithout int64 // hits that passed before the store forgot
	with, without         int64 // passed beyond the limits
	bound                 int64 // on with
	reseeded              uint64
}

// reseedTable is the rows so far. Tests add to it one after the other.
type reseedTable []reseedRow

func (t *reseedTable) add(r reseedRow) { *t = append(*t, r) }

// text returns the table in Markdown.
func (t *reseedTable) text() string {
	if len(*t) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n| event | times | keys of each fleet | limit | hits before, with / without | told to the replica | over-admitted without | with / bound | brought back |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range *t {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d / %d | %d of %d each | %d | %d / %d | %d |\n",
			r.event, r.tries, r.keys, quota, r.before, r.beforeWithout, known, used, r.without, r.with, r.bound, r.reseeded)
	}
	return b.String()
}
