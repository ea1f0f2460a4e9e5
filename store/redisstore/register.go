package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/resp"
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
	answer, err := s.askRegister(ctx, op, name, 2, decimal(known), "", "")
	if err != nil {
		return 0, nil, err
	}
	number, err := answer[0].Text()
	if err == nil {
		version, err = strconv.ParseInt(number, 10, 64)
	}
	if err != nil || version < 0 || version > store.MaxRegisterVersion {
		return 0, nil, s.options.Fault(op, conn.ErrBadReply)
	}
	if version == known || version == 0 {
		return version, nil, nil
	}
	if length, err := answer[1].Int(); err == nil {
		return 0, nil, s.refuse(op, store.Misconfigured, fmt.Sprintf("no node has written it: they write %d at most; delete the key", store.MaxRegister), fmt.Errorf("its text has %d bytes", length))
	}
	kept, err := answer[1].Text()
	if err != nil {
		return 0, nil, s.options.Fault(op, conn.ErrBadReply)
	}
	return version, []byte(kept), nil
}

// ReplaceRegister implements store.Register; see ReadRegister.
func (s *Store) ReplaceRegister(ctx context.Context, name string, from, to int64, text []byte) (done bool, err error) {
	const op = "replace a register"
	if to < 1 || to > store.MaxRegisterVersion || len(text) > store.MaxRegister {
		return false, s.refuse(op, store.Misconfigured, fmt.Sprintf("at most %d bytes", store.MaxRegister), fmt.Errorf("version %d of %d bytes", to, len(text)))
	}
	answer, err := s.askRegister(ctx, op, name, 1, decimal(from), decimal(to), string(text))
	if err != nil {
		return false, err
	}
	n, err := answer[0].Int()
	if err != nil {
		return false, s.options.Fault(op, conn.ErrBadReply)
	}
	return n == 1, nil
}

// askRegister makes one call, and returns its answer of so many parts.
func (s *Store) askRegister(ctx context.Context, op, name string, parts int, args ...string) (answer []resp.Message, err error) {
	if name == "" || len(name) > maxRegisterName {
		return nil, s.refuse(op, store.Misconfigured, "the name of a register has 1 to 64 bytes", fmt.Errorf("the name has %d bytes", len(name)))
	}
	err = s.askFirst(ctx, op, registerScript, &plain{
		keys: []string{s.prefix(keyHash{}) + "register:" + name}, args: args,
		read: func(rest []resp.Message) bool { answer = rest; return len(rest) == parts },
	}, max(registerBudget, s.options.Budget))
	return answer, err
}
