package redisstore

import (
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// The form of the script's answer; head.lua has the words.
const (
	answerHead = 2 // status and number, now
	answerTake = 3 // verdict, remaining, reset
	// answerState is what there is in place of that where takes are joined: the
	// kind, a, b and c of the state before; or where the previous count of a
	// sliding window is told too.
	answerState = 4

	statusDecided = 0
	statusLate    = 1
	statusEdges   = 2

	// numberFactor is what the number of the call is multiplied by.
	numberFactor = 4
	verdictNever = -1 << 53
	// answerLater stands for the answer to a take that was wrongly guessed to pass: it comes
	// behind those to all others. No verdict is so far below 0, and no packed state so near.
	answerLater = -1 << 49
)

// head is the part of an answer before the takes.
type head struct {
	status int64
	now    limit.Micros
}

// decode reads the answer to call number into results, which it fills only when
// the status is decided.
func (r *request) decode(answer []resp.Message, number uint32, takes []store.Take, results []store.Result) (head, error) {
	h, rest, err := readHead(answer, number)
	if err == nil && h.status == statusDecided && !r.deal(rest, h.now, takes, results) {
		return head{}, conn.ErrBadReply
	}
	return h, err
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// integers reads messages into out, which has their number.
func integers(messages []resp.Message, out []int64) bool {
	for i := range messages {
		n, err := messages[i].Int()
		if err != nil {
			return false
		}
		out[i] = n
	}
	return true
}
