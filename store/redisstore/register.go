package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

//go:embed lua/register.lua
var luaRegister string

const (
	// maxRegisterName bounds the name of a register, in bytes.
	maxRegisterName = 64
	// registerBudget bounds a call for a register, which no decision waits for, unless
	// the budget is longer.
	registerBudget = time.Second
)

var registerScript = optional(newScript(luaRegister))

var _ store.Register = (*Store)(nil)

// ReadRegister implements store.Register for all who use this Redis with this prefix. A
// register is one key; in a cluster it is of the first bucket tag. It lasts no longer than
// a second, or the budget if that is longer; errors are *store.Error.
func (s *Store) ReadRegister(ctx context.Context, name string, known int64) (version int64, text []byte, err error) {
	const op = "read a register"
	body := &registerBody{known: known}
	if err := s.askRegister(ctx, op, name, body); err != nil {
		return 0, nil, err
	}
	if len(body.answer) != 2 {
		return 0, nil, s.options.Fault(op, conn.ErrBadReply)
	}
	number, err := body.answer[0].ToString()
	if err == nil {
		version, err = strconv.ParseInt(number, 10, 64)
	}
	if err != nil || version < 0 || version > store.MaxRegisterVersion {
		return 0, nil, s.options.Fault(op, conn.ErrBadReply)
	}
	if version == known || version == 0 {
		return version, nil, nil
	}
	kept, err := body.answer[1].ToString()
	if err != nil {
		return 0, nil, s.options.Fault(op, conn.ErrBadReply)
	}
	return version, []byte(kept), nil
}

// ReplaceRegister implements store.Register; see ReadRegister.
func (s *Store) ReplaceRegister(ctx context.Context, name string, from, to int64, text []byte) (done bool, err error) {
	const op = "replace a register"
	if to < 1 || to > store.MaxRegisterVersion || len(text) > store.MaxRegister {
		fault := s.options.Fault(op, fmt.Errorf("version %d of %d bytes", to, len(text)))
		fault.Reason, fault.Hint = store.Misconfigured, fmt.Sprintf("at most %d bytes", store.MaxRegister)
		return false, fault
	}
	body := &registerBody{known: from, replace: true, to: to, text: string(text)}
	if err := s.askRegister(ctx, op, name, body); err != nil {
		return false, err
	}
	if len(body.answer) != 1 {
		return false, s.options.Fault(op, conn.ErrBadReply)
	}
	n, err := body.answer[0].ToInt64()
	if err != nil {
		return false, s.options.Fault(op, conn.ErrBadReply)
	}
	return n == 1, nil
}

// askRegister makes one call.
func (s *Store) askRegister(ctx context.Context, op, name string, body *registerBody) error {
	if name == "" || len(name) > maxRegisterName {
		fault := s.options.Fault(op, fmt.Errorf("the name has %d bytes", len(name)))
		fault.Reason, fault.Hint = store.Misconfigured, "the name of a register has 1 to 64 bytes"
		return fault
	}
	deadline := time.Now().Add(max(registerBudget, s.options.Budget))
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	body.key = s.prefix(keyHash{}) + "register:" + name
	if _, err := s.run(ctx, registerScript, body, keyHash{}, deadline); err != nil {
		return s.faultOf(op, err)
	}
	return nil
}

// registerBody is the body of a call that reads a register or replaces it.
type registerBody struct {
	key     string
	known   int64
	replace bool
	to      int64
	text    string
	answer  []rueidis.RedisMessage // what followed the head
}

// encode implements body.
func (b *registerBody) encode(h header) (keys, args []string) {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	to := ""
	if b.replace {
		to = number(b.to)
	}
	args = []string{number(int64(h.number)), number(int64(h.now)), number(int64(max(h.deadline, 0))), number(b.known), to, b.text}
	return []string{b.key}, args
}

// decode implements body.
func (b *registerBody) decode(answer []rueidis.RedisMessage, number uint32) (head, error) {
	var n [answerHead]int64
	if len(answer) < answerHead || !integers(answer[:answerHead], n[:]) || n[0]/numberFactor != int64(number) {
		return head{}, conn.ErrBadReply
	}
	h := head{status: n[0] % numberFactor, now: limit.Micros(n[1])}
	if h.status == statusDecided {
		b.answer = answer[answerHead:]
	}
	return h, nil
}

// release implements body: the strings are not used again.
func (b *registerBody) release(bool) {}
