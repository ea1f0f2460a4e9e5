package memcachestore

import (
	"bufio"
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// keptName ends the name of a value that Swap keeps.
const keptName = ":kept"

var _ store.Swapper = (*Store)(nil)

// Swap implements store.Swapper for all who use these servers with this prefix: each swap
// is a gets and an add or cas, again where somebody else was faster. Those of a server are
// made one after the other, those of several side by side. Values stand by the clock of the
// node that asks.
func (s *Store) Swap(ctx context.Context, swaps []store.Swap, answers []store.Swapped) {
	store.Waits(ctx)
	bounded, cancel := store.WithBudget(ctx, time.Now(), s.options.Budget)
	defer cancel()
	each := map[*server][]*keptSwap{}
	for i := range swaps {
		if fault := swaps[i].Fault(); fault != nil {
			fault.Store = s.String()
			answers[i] = store.Swapped{Err: fault}
			continue
		}
		name, place := nameOf(s.options.Prefix, swaps[i].Key)
		at := s.serverOf(place)
		each[at] = append(each[at], &keptSwap{store: s, swap: &swaps[i], answer: &answers[i], name: name + keptName, server: at, caller: ctx})
	}
	var asking sync.WaitGroup
	for _, some := range each {
		asking.Go(func() {
			for _, k := range some {
				k.run(bounded)
			}
		})
	}
	asking.Wait()
}

// keptSwap is one swap under way.
type keptSwap struct {
	store  *Store
	swap   *store.Swap
	answer *store.Swapped
	name   string
	server *server
	caller context.Context

	read item
	text string // as it was read
}

// run makes the swap.
func (k *keptSwap) run(ctx context.Context) {
	*k.answer = store.Swapped{}
	pause := minPause
	for range maxRounds {
		done, err := k.round(ctx)
		if err != nil {
			k.answer.Err = fault("swap", k.server.addr, err)
			return
		}
		if done {
			return
		}
		k.store.conflicts.Add(1)
		_ = sleep.For(ctx, rand.N(pause))
		pause = min(2*pause, maxPause)
	}
	k.answer.Err = fault("swap", k.server.addr, errLostRace)
}

// round reads the value and, if it is the old one, writes the new one. It is done unless
// somebody else has written in between.
func (k *keptSwap) round(ctx context.Context) (done bool, err error) {
	if err := k.exchange(ctx, true, func(b []byte) []byte { return appendGets(b, k.name) }, func(r *bufio.Reader) (err error) {
		k.read, k.text, err = readText(r, k.name)
		return err
	}); err != nil {
		return false, err
	}
	now := k.store.clock()
	found, left := parseKept(k.text, now)
	if found != string(k.swap.Old) {
		if found != "" {
			k.answer.Found, k.answer.Left = []byte(found), left
		}
		return true, nil
	}
	if len(k.swap.New) == 0 && !k.read.found {
		k.answer.Done = true
		return true, nil
	}
	text, lasts := appendKept(nil, k.swap, now), int64(-1)
	if len(k.swap.New) > 0 {
		lasts = expiry(k.swap.TTL, time.Now())
	}
	err = k.exchange(ctx, false, func(b []byte) []byte { return appendText(b, k.name, k.read, text, lasts) }, func(r *bufio.Reader) error {
		got, err := readOutcome(r)
		k.answer.Done = got == stored
		return err
	})
	return k.answer.Done, err
}

// exchange asks the server; again says that it may be asked twice.
func (k *keptSwap) exchange(ctx context.Context, again bool, write func([]byte) []byte, read func(*bufio.Reader) error) error {
	return k.server.do(exchange{ctx: ctx, caller: k.caller, again: again, write: write, read: read})
}

// appendKept writes the new value of a swap: the instant until which it stands, in
// microseconds, a space, and the value. Nothing is written as nothing.
func appendKept(b []byte, s *store.Swap, now limit.Micros) []byte {
	if len(s.New) == 0 {
		return b
	}
	b = strconv.AppendInt(b, int64(now)+s.TTL.Microseconds(), 10)
	return append(append(b, ' '), s.New...)
}

// parseKept reads what appendKept wrote, and for how much longer that stands: "" when its
// time is over, and for what has no such form.
func parseKept(text string, now limit.Micros) (found string, left time.Duration) {
	ends, value, _ := strings.Cut(text, " ")
	at, err := strconv.ParseInt(ends, 10, 64)
	if err != nil || at <= int64(now) {
		return "", 0
	}
	return value, time.Duration(at-int64(now)) * time.Microsecond
}
