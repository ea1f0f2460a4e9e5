package redisstore

import (
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// The form of the script's answer; take.lua has the words.
const (
	answerHead = 3 // status, now, number
	answerTake = 5 // flags, remaining, reset, retry, delay

	statusDecided = 0
	statusLate    = 1
	statusEdges   = 2

	flagAllowed = 1
	flagNever   = 2
)

// head is the part of an answer before the takes.
type head struct {
	status int64
	now    limit.Micros
}

// decode reads the answer to call number into results, which it fills only when
// the status is decided.
func decode(answer []rueidis.RedisMessage, number uint32, takes []store.Take, results []store.Result) (head, error) {
	if len(answer) < answerHead {
		return head{}, errBadReply
	}
	var first [answerHead]int64
	if !integers(answer[:answerHead], first[:]) || first[2] != int64(number) {
		return head{}, errBadReply
	}
	h := head{status: first[0], now: limit.Micros(first[1])}
	if h.status != statusDecided {
		return h, nil
	}
	answer = answer[answerHead:]
	if len(answer) != answerTake*len(takes) {
		return head{}, errBadReply
	}
	for i := range takes {
		var n [answerTake]int64
		if !integers(answer[i*answerTake:(i+1)*answerTake], n[:]) {
			return head{}, errBadReply
		}
		results[i] = store.Result{Decision: limit.Decision{
			Allowed:    n[0] == flagAllowed,
			Never:      n[0] == flagNever,
			Limit:      takes[i].Limit.Capacity(),
			Remaining:  n[1],
			ResetAfter: micros(n[2]),
			RetryAfter: micros(n[3]),
			Delay:      micros(n[4]),
		}}
	}
	return h, nil
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// integers reads messages into out, which has their number.
func integers(messages []rueidis.RedisMessage, out []int64) bool {
	for i := range messages {
		n, err := messages[i].ToInt64()
		if err != nil {
			return false
		}
		out[i] = n
	}
	return true
}
