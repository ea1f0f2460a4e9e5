package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// askFirst makes a call about what lies under the first tag, within budget.
func (s *Store) askFirst(ctx context.Context, op string, asked *script, b *plain, budget time.Duration) error {
	// The hash that is all zeros leads to the first tag.
	if err := s.run(ctx, asked, b, keyHash{}, conn.Within(ctx, budget)); err != nil {
		return s.faultOf(op, err)
	}
	return nil
}

// refuse returns why something is not asked for, or what an answer tells an operator.
func (s *Store) refuse(op string, reason store.Reason, hint string, err error) error {
	fault := s.options.Fault(op, err)
	fault.Reason, fault.Hint = reason, hint
	return fault
}

// plain is the body of a call whose keys and arguments are strings, which are not used again.
type plain struct {
	keys, args []string // args follow the head of the call
	// read takes what follows the head of an answer, and reports whether it is one to the call.
	read func(rest []resp.Message) bool
	now  limit.Micros // the instant at which the script has decided
}

// encode implements body.
func (b *plain) encode(h header) (keys, args []string) { return b.keys, plainArgs(h, b.args) }

// decode implements body.
func (b *plain) decode(answer []resp.Message, number uint32) (head, error) {
	h, rest, err := readHead(answer, number)
	if err == nil && h.status == statusDecided && !b.read(rest) {
		return head{}, conn.ErrBadReply
	}
	b.now = h.now
	return h, err
}

// plainArgs returns the head of a call as arguments, and what follows it.
func plainArgs(h header, more []string) []string {
	return append([]string{decimal(int64(h.number)), decimal(int64(h.now)), decimal(int64(max(h.deadline, 0)))}, more...)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// readHead returns the head of the answer to call number and, where the script has
// decided, what follows it.
func readHead(answer []resp.Message, number uint32) (h head, rest []resp.Message, err error) {
	var first [answerHead]int64
	if len(answer) < answerHead || !integers(answer[:answerHead], first[:]) || first[0]/numberFactor != int64(number) {
		return head{}, nil, conn.ErrBadReply
	}
	h = head{status: first[0] % numberFactor, now: limit.Micros(first[1])}
	if h.status == statusDecided {
		rest = answer[answerHead:]
	}
	return h, rest, nil
}
