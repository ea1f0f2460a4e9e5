package redisstore

import (
	"context"
	crand "crypto/rand"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
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
// start of the server, with each failover, and where the mark is gone, whether anything was
// forgotten or not. A server that is given older data while it runs on does not notice
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
		fault := s.options.Fault(op, errSeveralServers)
		fault.Reason, fault.Hint = store.Misconfigured, "one server, with replicas and Sentinel if need be"
		return store.Epoch{}, fault
	}
	var drawn [8]byte
	crand.Read(drawn[:]) // never fails
	body := &epochBody{key: s.prefix(keyHash{}) + epochName, drawn: binary.BigEndian.Uint64(drawn[:]) | 1, vouched: vouched}
	if err := s.askFirst(ctx, op, epochScript, body, s.options.Budget); err != nil {
		return store.Epoch{}, err
	}
	return body.epoch, nil
}

// epochBody is the body of a call that asks for the epoch.
type epochBody struct {
	plain
	key     string
	drawn   uint64 // if one begins; not 0
	vouched bool
	epoch   store.Epoch
}

// encode implements body.
func (b *epochBody) encode(h header) (keys, args []string) {
	vouched := "0"
	if b.vouched {
		vouched = "1"
	}
	return []string{b.key}, append(plainArgs(h, 2), fmt.Sprintf("%016x", b.drawn), vouched)
}

// decode implements body.
func (b *epochBody) decode(answer []rueidis.RedisMessage, number uint32) (head, error) {
	h, rest, err := readHead(answer, number)
	if err != nil || h.status != statusDecided {
		return h, err
	}
	var age [1]int64
	if len(rest) != 2 || !integers(rest[1:], age[:]) {
		return head{}, conn.ErrBadReply
	}
	text, err := rest[0].ToString()
	if err != nil {
		return head{}, conn.ErrBadReply
	}
	id, err := strconv.ParseUint(text, 16, 64)
	if err != nil || id == 0 {
		return head{}, conn.ErrBadReply
	}
	b.epoch = store.Epoch{ID: id, Age: time.Duration(min(age[0], math.MaxInt64/int64(time.Microsecond))) * time.Microsecond}
	return h, nil
}
