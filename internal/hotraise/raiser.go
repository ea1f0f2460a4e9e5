package hotraise

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

const (
	// register is the name of what the store keeps.
	register = "hot-raises"
	// lookEvery is how often the store is asked: so late is a raise in force on other
	// nodes.
	lookEvery = time.Second
	// lookTimeout bounds one such question.
	lookTimeout = time.Second
	// maxTries bounds how often a change is tried again because somebody else was first.
	maxTries = 5
	// maxWaiting bounds the keys that wait to be raised by this node. Those beyond are
	// found hot again within a minute.
	maxWaiting = 64
)

// Options configures a Raiser.
type Options struct {
	// Register is what all nodes share; required.
	Register store.Register
	// Rules returns the rules in force, nil for none; required.
	Rules func() *rules.Set
	// Node is the name of this node.
	Node string
	// OnRaise, when not nil, is told of what this node has raised, once, with the key of
	// the bucket in the store. It is called by Run.
	OnRaise func(r Raise, key []byte)
	// OnFull, when not nil, is told of a key that was not raised because MaxKeys are. It
	// is called by Run.
	OnFull func(rule string)
	// Logger is told of trouble; required.
	Logger *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Raiser is a headgate.KeyRaises, and safe for concurrent use. Make one with New; a nil one
// raises nothing.
type Raiser struct {
	o Options
	// known is never changed once it is here; nil: there are none.
	known atomic.Pointer[raises]
	wake  sleep.Nudge

	mu      sync.Mutex
	waiting map[Key]hot

	working sync.Mutex
	at      int64 // version of the register that was read last
	failing bool
}

// hot is a key that waits to be raised.
type hot struct {
	rule string
	key  []byte
}

// New returns a Raiser that knows of no raise yet.
func New(o Options) *Raiser {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Raiser{o: o, wake: sleep.NewNudge(), waiting: map[Key]hot{}}
}

// KeyOf names the bucket with a key.
func KeyOf(key []byte) Key {
	sum := sha256.Sum256(key)
	return Key(sum[:16])
}

// RaiseOf implements headgate.KeyRaises.
func (r *Raiser) RaiseOf(rule string, key []byte, now limit.Micros) int {
	known := r.known.Load()
	if known == nil {
		return 0
	}
	one, ok := (*known)[KeyOf(key)]
	if !ok || one.Rule != rule || now < limit.MicrosOf(one.From) || now >= limit.MicrosOf(one.Until) {
		return 0
	}
	return one.By
}

// Hot notes that the bucket with a key, of a rule with that ID, is hot. It does not block,
// and keeps no part of key.
func (r *Raiser) Hot(rule string, key []byte) {
	if r == nil {
		return
	}
	found := r.o.Rules().Rule(rule)
	if found == nil || found.HotRaise.By == 0 || found.Sensitive {
		return
	}
	name := KeyOf(key)
	if known := r.known.Load(); known != nil {
		if one, ok := (*known)[name]; ok && r.o.Now().Before(one.Again) {
			return
		}
	}
	r.mu.Lock()
	if len(r.waiting) < maxWaiting {
		r.waiting[name] = hot{rule, slices.Clone(key)}
	}
	r.mu.Unlock()
	r.wake.Give()
}

// List returns the raises that are in force now, the oldest first.
func (r *Raiser) List() []Raise {
	if r == nil || r.known.Load() == nil {
		return nil
	}
	now := r.o.Now()
	return slices.DeleteFunc(r.known.Load().sorted(), func(one Raise) bool { return !one.inForce(now) })
}

// Start asks the store once: a node that starts shall not decide otherwise than the others
// if that can be helped. A store that does not answer is no error.
func (r *Raiser) Start(ctx context.Context) { r.look(ctx) }

// Run follows the store, and raises, until ctx ends.
func (r *Raiser) Run(ctx context.Context) {
	for range r.wake.Every(ctx, lookEvery) {
		r.look(ctx)
	}
}

// concerned reports whether there is anything to ask the store for: without a rule that
// raises nothing is, whatever others do.
func (r *Raiser) concerned() bool {
	set := r.o.Rules()
	return set != nil && slices.ContainsFunc(set.Rules(), func(one *rules.Rule) bool { return one.HotRaise.By > 0 })
}

// look reads the register, and writes what this node raises. Trouble is logged when it
// begins.
func (r *Raiser) look(ctx context.Context) {
	if !r.concerned() {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	r.working.Lock()
	defer r.working.Unlock()
	err := r.syncLocked(bounded)
	if ctx.Err() != nil {
		return
	}
	if err != nil && !r.failing {
		r.o.Logger.Warn("the raises of hot keys in the store cannot be read; those that are known last until their end, and there are no new ones", "error", err)
	}
	if err == nil && r.failing {
		r.o.Logger.Info("the raises of hot keys in the store can be read again")
	}
	r.failing = err != nil
}

// syncLocked makes what is known and what the register has the same, and adds what waits.
func (r *Raiser) syncLocked(ctx context.Context) error {
	r.mu.Lock()
	waiting := r.waiting
	r.waiting = map[Key]hot{}
	r.mu.Unlock()
	for range maxTries {
		now := r.o.Now()
		known := raises{}
		if all := r.known.Load(); all != nil {
			known = *all
		}
		version, data, err := r.o.Register.ReadRegister(ctx, register, r.at)
		if err != nil {
			return err
		}
		there := raises{}
		switch {
		case version != 0 && version == r.at:
			there = known
		case version != 0:
			if there, err = decode(data, now); err != nil {
				return fmt.Errorf("read the raises in the store: %w; hint: delete its register %s, and the nodes write it anew", err, register)
			}
		}
		all := known.merge(there, now).within()
		added, full := r.add(all, waiting, now)
		if len(added) == 0 && len(full) == 0 && covers(there, all) {
			r.at = version
			r.learn(all)
			return nil
		}
		if len(added) > 0 || !covers(there, all) {
			data, err := all.encode()
			if err != nil {
				return err
			}
			to := max(now.UnixMicro(), version+1)
			done, err := r.o.Register.ReplaceRegister(ctx, register, version, to, data)
			if err != nil {
				return err
			}
			if !done {
				continue
			}
			version = to
		}
		r.at = version
		r.learn(all)
		r.tell(added, full, waiting)
		return nil
	}
	return errors.New("others change the raises of hot keys all the time; hint: these keys are raised when they are found hot again")
}

// covers reports whether there has all of all, whatever more it has, which is over.
func covers(there, all raises) bool {
	for key, r := range all {
		if there[key] != r {
			return false
		}
	}
	return true
}

// add raises what waits, where its rule still says so, it does not pause and there is room.
// It returns what it has raised, and of which rules a key found no room.
func (r *Raiser) add(all raises, waiting map[Key]hot, now time.Time) (added []Raise, full []string) {
	set := r.o.Rules()
	for key, h := range waiting {
		rule := set.Rule(h.rule)
		if _, there := all[key]; there || rule == nil || rule.HotRaise.By == 0 || rule.Sensitive || len(rule.ID) > maxRule {
			continue
		}
		if len(all) >= MaxKeys {
			full = append(full, h.rule)
			continue
		}
		all[key] = newRaise(rule, key, r.o.Node, now)
		added = append(added, all[key])
	}
	return added, full
}

func (r *Raiser) learn(all raises) {
	if len(all) == 0 {
		r.known.Store(nil)
		return
	}
	if known := r.known.Load(); known == nil || !maps.Equal(*known, all) {
		r.known.Store(&all)
	}
}

func (r *Raiser) tell(added []Raise, full []string, waiting map[Key]hot) {
	for _, one := range added {
		if r.o.OnRaise != nil {
			r.o.OnRaise(one, waiting[one.Key].key)
		}
	}
	for _, rule := range full {
		if r.o.OnFull != nil {
			r.o.OnFull(rule)
		}
	}
}

// Read returns the raises in force at now of the nodes that share a store, the oldest first.
func Read(ctx context.Context, r store.Register, now time.Time) ([]Raise, error) {
	version, data, err := r.ReadRegister(ctx, register, 0)
	if err != nil || version == 0 {
		return nil, err
	}
	all, err := decode(data, now)
	if err != nil {
		return nil, fmt.Errorf("read the raises of hot keys: %w", err)
	}
	return slices.DeleteFunc(all.sorted(), func(one Raise) bool { return !one.inForce(now) }), nil
}
