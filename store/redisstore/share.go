package redisstore

import (
	"context"
	crand "crypto/rand"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

//go:embed lua/share.lua
var luaShare string

const (
	// sharedName is what the name of what nodes share has after the prefix.
	sharedName = "shared"
	// sharedLife is how long what nodes share lives after it was last written, and the most
	// that anything in it lasts.
	sharedLife = time.Hour
	// endDigits is how an end is written, and lastEnd the last one.
	endDigits = 16
	lastEnd   = 1<<53 - 1
)

var shareScript = optional(newScript(func() string {
	return strings.NewReplacer(
		"MAX_SHARED", strconv.Itoa(store.MaxShared),
		"MAX_LENGTH", strconv.Itoa(16+store.MaxShared*(16+endDigits+3+store.MaxSharedText)),
		"SHARED_MS", strconv.FormatInt(sharedLife.Milliseconds(), 10),
	).Replace(luaShare)
}))

var _ store.Sharer = (*Store)(nil)

// Share implements store.Sharer for all who use this Redis with this prefix. What is
// shared is one key, in a cluster of the first bucket tag, of at most 50 KB. A call
// lasts no longer than the budget; errors are *store.Error.
func (s *Store) Share(ctx context.Context, told []store.Shared) (store.Sharing, error) {
	const op = "share"
	for i := range told {
		if n := len(told[i].Text); n > store.MaxSharedText {
			fault := s.options.Fault(op, fmt.Errorf("a text of %d bytes", n))
			fault.Reason, fault.Hint = store.Misconfigured, fmt.Sprintf("at most %d", store.MaxSharedText)
			return store.Sharing{}, fault
		}
	}
	body := &shareBody{key: s.prefix(keyHash{}) + sharedName, told: told[:min(len(told), store.MaxShared)]}
	crand.Read(body.salt[:]) // never fails
	if err := s.askFirst(ctx, op, shareScript, body, s.options.Budget); err != nil {
		return store.Sharing{}, err
	}
	return body.shared, nil
}

// shareBody is the body of a call that tells and hears what nodes share.
type shareBody struct {
	plain
	key    string
	told   []store.Shared
	salt   [16]byte // if there is none
	shared store.Sharing
}

// encode implements body.
func (b *shareBody) encode(h header) (keys, args []string) {
	args = append(plainArgs(h, 1+3*len(b.told)), string(b.salt[:]))
	for i := range b.told {
		t := &b.told[i]
		args = append(args, string(t.Name[:]), fmt.Sprintf("%0*d", endDigits, min(max(int64(t.Until), 0), lastEnd)), string(t.Text))
	}
	return []string{b.key}, args
}

// decode implements body.
func (b *shareBody) decode(answer []rueidis.RedisMessage, number uint32) (head, error) {
	h, rest, err := readHead(answer, number)
	if err != nil || h.status != statusDecided {
		return h, err
	}
	texts := make([]string, 0, len(rest))
	for i := range rest {
		text, err := rest[i].ToString()
		if err != nil {
			return head{}, conn.ErrBadReply
		}
		texts = append(texts, text)
	}
	var ok bool
	if b.shared, ok = sharingOf(texts); !ok {
		return head{}, conn.ErrBadReply
	}
	b.shared.Now = h.now
	return h, nil
}

// sharingOf reads the salt, and a name and a value of each thing; false if they are not.
func sharingOf(texts []string) (sharing store.Sharing, ok bool) {
	if len(texts)%2 != 1 || len(texts[0]) != len(sharing.Salt) || len(texts) > 1+2*store.MaxShared {
		return sharing, false
	}
	copy(sharing.Salt[:], texts[0])
	for i := 1; i < len(texts); i += 2 {
		var one store.Shared
		name, value := texts[i], texts[i+1]
		if len(name) != len(one.Name) || len(value) < endDigits || len(value) > endDigits+store.MaxSharedText {
			return sharing, false
		}
		until, err := strconv.ParseUint(value[:endDigits], 10, 63)
		if err != nil {
			return sharing, false
		}
		copy(one.Name[:], name)
		one.Until, one.Text = limit.Micros(until), []byte(value[endDigits:])
		sharing.All = append(sharing.All, one)
	}
	return sharing, true
}
