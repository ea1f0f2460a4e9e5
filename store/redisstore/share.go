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

var shareScript = optional(newScript(strings.NewReplacer(
	"MAX_SHARED", strconv.Itoa(store.MaxShared),
	"SHARED_MS", strconv.FormatInt(sharedLife.Milliseconds(), 10),
).Replace(luaShare)))

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
	deadline := time.Now().Add(s.options.Budget)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	// The hash that is all zeros leads to the first tag.
	var first keyHash
	body := &shareBody{key: s.prefix(first) + sharedName, told: told[:min(len(told), store.MaxShared)]}
	crand.Read(body.salt[:]) // never fails
	if _, err := s.run(ctx, shareScript, body, first, deadline); err != nil {
		return store.Sharing{}, s.faultOf(op, err)
	}
	return body.shared, nil
}

// shareBody is the body of a call that tells and hears what nodes share.
type shareBody struct {
	key    string
	told   []store.Shared
	salt   [16]byte // if there is none
	shared store.Sharing
}

// encode implements body.
func (b *shareBody) encode(h header) (keys, args []string) {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	args = append(make([]string, 0, 4+3*len(b.told)), number(int64(h.number)), number(int64(h.now)), number(int64(max(h.deadline, 0))), string(b.salt[:]))
	for i := range b.told {
		t := &b.told[i]
		args = append(args, string(t.Name[:]), fmt.Sprintf("%0*d", endDigits, min(max(int64(t.Until), 0), lastEnd)), string(t.Text))
	}
	return []string{b.key}, args
}

// decode implements body.
func (b *shareBody) decode(answer []rueidis.RedisMessage, number uint32) (head, error) {
	var n [answerHead]int64
	if len(answer) < answerHead || !integers(answer[:answerHead], n[:]) || n[0]/numberFactor != int64(number) {
		return head{}, conn.ErrBadReply
	}
	h := head{status: n[0] % numberFactor, now: limit.Micros(n[1])}
	if h.status != statusDecided {
		return h, nil
	}
	texts := make([]string, 0, len(answer)-answerHead)
	for i := range answer[answerHead:] {
		text, err := answer[answerHead+i].ToString()
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

// release implements body: the strings are not used again.
func (b *shareBody) release(bool) {}
