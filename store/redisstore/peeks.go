package redisstore

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

const (
	// replicasAsked is how many replicas of one primary are asked in one Take, one after
	// the other, until one has answered.
	replicasAsked = 2
	// maxPeekTime bounds how long they may take together, unless the budget is longer.
	maxPeekTime = 2 * time.Second
)

// Peeks answers peeks of operators from replicas. It is for those who may be told what was
// so a moment ago, and never for decisions: it has no part in what the Store does. It is
// safe for concurrent use. Store.Peeks has it.
//
// A replica is asked by the script that decides, which writes nothing for a peek, on a
// connection that is made for that. It decides by its own clock: where that differs from its
// primary's, so do the windows that it tells of. What no replica answers, the Store is asked.
type Peeks struct {
	store *Store
	found finds
}

var _ store.Store = (*Peeks)(nil)

// Peeks returns what asks replicas, nil where the Options do not name any.
func (s *Store) Peeks() *Peeks {
	if s.options.Replicas == nil {
		return nil
	}
	return &Peeks{store: s, found: finds{options: &s.options}}
}

// Close implements store.Store. There is nothing of its own to close, and the Store goes on.
func (p *Peeks) Close() error { return nil }

// Take implements store.Store. Only peeks that no take stands beside which is none are asked
// of replicas, and store.TellStale tells of those that have answered. All others are Takes of
// the Store.
func (p *Peeks) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if len(takes) == 0 || !allPeeks(takes) {
		p.store.Take(ctx, takes, results)
		return
	}
	store.Waits(ctx)
	var (
		asking sync.WaitGroup
		mu     sync.Mutex
		others []int // what no replica has answered
	)
	for _, part := range p.parts(takes) {
		asking.Go(func() {
			if part.at != nil && p.ask(ctx, &part, takes, results) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			others = append(others, part.takes...)
		})
	}
	asking.Wait()
	if len(others) == 0 {
		return
	}
	slices.Sort(others)
	again, answers := make([]store.Take, len(others)), make([]store.Result, len(others))
	for i, at := range others {
		again[i] = takes[at]
	}
	p.store.Take(ctx, again, answers)
	for i, at := range others {
		results[at] = answers[i]
	}
}

// allPeeks reports whether takes are peeks, all of them.
func allPeeks(takes []store.Take) bool {
	return !slices.ContainsFunc(takes, func(t store.Take) bool { return t.Op != store.Hit || t.Hits != 0 })
}

// peekPart is what one primary has of a batch: indices of takes in their order. at is nil
// where it is not known which primary.
type peekPart struct {
	at    *shard
	takes []int
}

// parts divides takes by the primaries that have them.
func (p *Peeks) parts(takes []store.Take) (parts []peekPart) {
	for i := range takes {
		at, _ := p.store.shard(p.store.keyTag(takes[i].Key))
		n := slices.IndexFunc(parts, func(part peekPart) bool { return part.at == at })
		if n < 0 {
			n, parts = len(parts), append(parts, peekPart{at: at})
		}
		parts[n].takes = append(parts[n].takes, i)
	}
	return parts
}

// ask asks replicas of a primary, and reports whether one has answered.
func (p *Peeks) ask(ctx context.Context, part *peekPart, takes []store.Take, results []store.Result) bool {
	ctx, cancel := context.WithTimeout(ctx, max(maxPeekTime, p.store.options.Budget))
	defer cancel()
	replicas := slices.Clone(p.found.of(ctx, part.at))
	rand.Shuffle(len(replicas), func(i, j int) { replicas[i], replicas[j] = replicas[j], replicas[i] })
	for _, r := range replicas[:min(len(replicas), replicasAsked)] {
		o := p.store.options.ReplicaAt(r.addr)
		heard, err := conn.DialThrough(ctx, r.gate, o, func(ctx context.Context) (time.Duration, error) {
			ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
			defer cancel()
			return p.askOne(ctx, o, part, takes, results)
		})
		if err == nil {
			store.TellStale(ctx, heard)
			return true
		}
	}
	return false
}

// askOne asks one replica, and returns for how long at most it has not heard of its primary.
func (p *Peeks) askOne(ctx context.Context, o *Options, part *peekPart, takes []store.Take, results []store.Result) (heard time.Duration, err error) {
	se, err := conn.Connect(ctx, o)
	if err != nil {
		return 0, err
	}
	defer se.Close()
	if p.store.router != nil {
		if err := se.Pipe.Ask(ctx, resp.Words("READONLY")).Err(); err != nil {
			return 0, err
		}
	}
	// Before the script, so that what it tells is no older than that.
	if heard, err = se.Link(ctx); err != nil {
		return 0, err
	}
	asked := p.questions(part, takes)
	answers := p.exchange(ctx, se, asked, false)
	if conn.IsNoScript(answers[0].Err()) {
		answers = p.exchange(ctx, se, asked, true)
	}
	for i := range asked {
		if err := asked[i].read(answers[i]); err != nil {
			return 0, err
		}
	}
	for i := range asked {
		for j, at := range asked[i].of {
			results[at] = asked[i].results[j]
		}
	}
	return heard, nil
}

// question is one call of the script, of takes of one tag.
type question struct {
	takeBody
	number uint32
	of     []int // where its takes stand in the batch
}

// questions returns the calls that ask what a part asks, each of no more than a call of the
// Store has. Whatever the takes are, these are peeks, each alone.
func (p *Peeks) questions(part *peekPart, takes []store.Take) (asked []*question) {
	byTag := map[int][]int{}
	for _, i := range part.takes {
		tag := p.store.keyTag(takes[i].Key)
		byTag[tag] = append(byTag[tag], i)
	}
	for tag, of := range byTag {
		alone := make([]store.Take, len(of))
		for j, i := range of {
			alone[j] = store.Take{Key: takes[i].Key, Limit: takes[i].Limit}
		}
		for len(alone) > 0 {
			n := callLength(alone)
			asked = append(asked, &question{
				takeBody: takeBody{prefix: p.store.prefixes[tag], takes: alone[:n], results: make([]store.Result, n)},
				number:   p.store.number.Add(1), of: of[:n],
			})
			alone, of = alone[n:], of[n:]
		}
	}
	return asked
}

// exchange sends what is asked, and returns as many answers. The whole script goes with the
// first where the replica has it not; the others find it there.
func (p *Peeks) exchange(ctx context.Context, se *conn.Session, asked []*question, whole bool) []resp.Answer {
	h := header{wall: limit.MicrosOf(time.Now())}
	if p.store.clock != nil {
		h.now = max(p.store.clock(), 1)
		h.wall = h.now
	}
	commands := make([]resp.Command, len(asked))
	for i, q := range asked {
		h.number = q.number
		keys, args := q.encode(h)
		name, script := "EVALSHA", takeScript.sha()
		if whole && i == 0 {
			name, script = "EVAL", takeScript.text()
		}
		commands[i] = resp.Script(name, script, keys, args)
	}
	return se.Pipe.AskAll(ctx, commands...)
}

// read reads the answer to a question.
func (q *question) read(answer resp.Answer) error {
	list, err := answer.List()
	if err != nil {
		return err
	}
	switch h, err := q.decode(list, q.number); {
	case err != nil:
		return err
	case h.status != statusDecided:
		return conn.ErrWindow // it has no deadline
	}
	return nil
}

const (
	// findAgain is how long the replicas of a primary are taken to be those that it had.
	findAgain = 5 * time.Second
	// maxFinds bounds the primaries and the replicas of which something is known.
	maxFinds = maxShards * conn.MaxReplicas
)

// replica is one, and the gate that keeps peeks away from it while it fails.
type replica struct {
	addr string
	gate *conn.Gate
}

// finds are the replicas of primaries. It is safe for concurrent use.
type finds struct {
	options *Options

	mu    sync.Mutex
	known map[string]find // by the address of a primary
	gates map[string]*conn.Gate
}

// find is what was found of one primary, and when.
type find struct {
	replicas []string
	at       time.Time
}

// of returns the replicas of a primary, as far as they can be known.
func (f *finds) of(ctx context.Context, at *shard) []replica {
	addrs := f.options.Replicas.Addrs
	if len(addrs) == 0 {
		addrs = f.look(ctx, at)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gates == nil || len(f.gates) > maxFinds {
		f.gates = map[string]*conn.Gate{}
	}
	list := make([]replica, len(addrs))
	for i, addr := range addrs {
		if f.gates[addr] == nil {
			f.gates[addr] = conn.NewGate(f.options)
		}
		list[i] = replica{addr, f.gates[addr]}
	}
	return list
}

// look asks a primary for its replicas, unless it was asked a moment ago. One that does not
// answer has those that it had.
func (f *finds) look(ctx context.Context, at *shard) []string {
	se, fault := at.Session()
	if fault != nil {
		return nil
	}
	primary := se.Options.Addr
	f.mu.Lock()
	before := f.known[primary]
	f.mu.Unlock()
	if time.Since(before.at) < findAgain {
		return before.replicas
	}
	ctx, cancel := context.WithTimeout(ctx, f.options.Budget) // as for all that it is asked
	defer cancel()
	var addrs []string
	var err error
	if f.options.Topology() == conn.InCluster {
		addrs, err = replicasInCluster(ctx, at)
	} else {
		addrs, err = at.ReplicasOf(ctx)
	}
	if err != nil {
		return before.replicas
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil || len(f.known) > maxFinds {
		f.known = map[string]find{}
	}
	f.known[primary] = find{addrs, time.Now()}
	return addrs
}

// replicasInCluster asks a primary of a cluster for its replicas.
func replicasInCluster(ctx context.Context, at *shard) ([]string, error) {
	answer, err := at.Ask(ctx, "replicas", resp.Words("CLUSTER", "SLOTS"))
	if err != nil {
		return nil, err
	}
	rows, err := answer.List()
	if err != nil {
		return nil, at.Fault("replicas", conn.ErrBadReply)
	}
	return readSlotReplicas(rows, at.Options.Addr), nil
}

// readSlotReplicas reads the answer to CLUSTER SLOTS of the primary at asked: its replicas,
// at most conn.MaxReplicas. What has another form is left out.
func readSlotReplicas(rows []resp.Message, asked string) (addrs []string) {
	for i := range rows {
		row, err := rows[i].List()
		if err != nil || len(row) < 3 {
			continue
		}
		if primary, ok := nodeAddr(row[2], asked); !ok || primary != asked {
			continue
		}
		for _, node := range row[3:] {
			addr, ok := nodeAddr(node, asked)
			if ok && !slices.Contains(addrs, addr) && len(addrs) < conn.MaxReplicas {
				addrs = append(addrs, addr)
			}
		}
	}
	return addrs
}
