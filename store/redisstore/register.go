package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

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

var registerScript = optional(newScript(func() string {
	return strings.NewReplacer(
		"MAX_REGISTER", strconv.Itoa(store.MaxRegister),
		"MAX_VERSION", strconv.Itoa(len(decimal(store.MaxRegisterVersion))),
	).Replace(luaRegister)
}))

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
	if length, err := body.answer[1].ToInt64(); err == nil {
		fault := s.options.Fault(op, fmt.Errorf("its text has %d bytes", length))
		fault.Reason, fault.Hint = store.Misconfigured, fmt.Sprintf("no node has written it: they write %d at most; delete the key", store.MaxRegister)
		return 0, nil, fault
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
	body.key = s.prefix(keyHash{}) + "register:" + name
	return s.askFirst(ctx, op, registerScript, body, max(registerBudget, s.options.Budget))
}

// registerBody is the body of a call that reads a register or replaces it.
type registerBody struct {
	plain
	key     string
	known   int64
	replace bool
	to      int64
	text    string
	answer  []rueidis.RedisMessage // what followed the head
}

// encode implements body.
func (b *registerBody) encode(h header) (keys, args []string) {
	to := ""
	if b.replace {
		to = decimal(b.to)
	}
	return []string{b.key}, append(plainArgs(h, 3), decimal(b.known), to, b.text)
}

// decode implements body.
func (b *registerBody) decode(answer []rueidis.RedisMessage, number uint32) (head, error) {
	h, rest, err := readHead(answer, number)
	b.answer = rest
	return h, err
}
