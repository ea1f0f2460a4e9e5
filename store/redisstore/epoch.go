package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/store"
)

//go:embed lua/epoch.lua
var luaEpoch string

// epochName is what the name of the mark of an epoch has after the prefix; it is shorter than
// any bucket's.
const epochName = "epoch"

var epochScript = optional(newScript(func() string { return luaEpoch }))

var errSeveralServers = errors.New("the buckets are on several servers, each of which may forget by itself")

var _ store.Chronicler = (*Store)(nil)

// Epoch implements store.Chronicler for one server and its replicas. An epoch begins with each
// start of the server, with each failover, when the server has evicted keys, and where the mark
// is gone, whether anything of ours was forgotten or not. A server that is given older data while it runs on does not notice
// (REPLICAOF and back, a machine that is put back to an image of its memory): delete the mark
// then, the key that ends in "epoch". The call lasts no longer than the budget; errors are
// *store.Error, and of a store of several servers Misconfigured.
func (s *Store) Epoch(ctx context.Context) (store.Epoch, error) { return s.epoch(ctx, "epoch", false) }

// Vouch implements store.Chronicler.
func (s *Store) Vouch(ctx context.Context) error {
	_, err := s.epoch(ctx, "vouch", true)
	return err
}

func (s *Store) epoch(ctx context.Context, op string, vouched bool) (store.Epoch, error) {
	if len(s.shards()) > 1 {
		return store.Epoch{}, s.refuse(op, store.Misconfigured, "one server, with replicas and Sentinel if need be", errSeveralServers)
	}
	word := "0"
	if vouched {
		word = "1"
	}
	var e store.Epoch
	err := s.askFirst(ctx, op, epochScript, &plain{
		keys: []string{s.prefix(keyHash{}) + epochName},
		// What is drawn is the epoch if one begins, and never 0.
		args: []string{fmt.Sprintf("%016x", rand.Uint64()|1), word},
		read: func(rest []resp.Message) (ok bool) { e, ok = readEpoch(rest); return ok },
	}, s.options.Budget)
	return e, err
}

// readEpoch reads an epoch and its age.
func readEpoch(rest []resp.Message) (store.Epoch, bool) {
	var age [1]int64
	if len(rest) != 2 || !integers(rest[1:], age[:]) {
		return store.Epoch{}, false
	}
	text, err := rest[0].Text()
	if err != nil {
		return store.Epoch{}, false
	}
	id, err := strconv.ParseUint(text, 16, 64)
	return store.Epoch{ID: id, Age: micros(min(age[0], math.MaxInt64/int64(time.Microsecond)))}, err == nil && id != 0
}
