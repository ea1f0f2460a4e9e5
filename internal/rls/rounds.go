package rls

import (
	"context"
	"time"

	"google.golang.org/grpc/status"
)

// Rounds decides requests many at a time, for a service that has them as bytes. Make one with
// NewRounds.
type Rounds struct{ service *service }

// NewRounds returns what decides requests as the calls of a Server with these options are. It
// panics without a Checker.
func NewRounds(o Options) *Rounds { return &Rounds{service: newService(o)} }

// Asked is a request of several that are decided together.
type Asked struct {
	// Number is by what its asker's client knows it, and Place where its asker has it; neither
	// is read.
	Number uint64
	Place  int
	// Message is the request, an encoded RateLimitRequest. It is not changed before Decide
	// returns.
	Message []byte
	// Deadline is by when it is to be decided; zero is whenever the context ends.
	Deadline time.Time

	call *call
}

// Decide decides all of asked for who makes the call of ctx. It tells answered of those that
// have their answers as they get them, some at a time and never two times at once, and returns
// when all have. They take one turn at the store. What it tells may be asked for their answers
// until it returns.
func (r *Rounds) Decide(ctx context.Context, asked []*Asked, answered func([]*Asked)) {
	round := rounds.Get().(*round)
	defer round.release()
	taking, end := r.service.options.Turns.Begin(ctx)
	defer end()
	round.service, round.ctx = r.service, taking
	for i := range asked {
		asked[i].call = round.add(asked[i].Message, Caller{ctx: ctx, fields: callerFields{ctx}}, asked[i].Deadline)
	}
	told := make([]*Asked, 0, len(asked))
	round.answered = func(done []*call) {
		told = told[:0]
		for _, c := range done {
			told = append(told, asked[c.index])
		}
		answered(told)
	}
	round.decide()
}

// callerFields are the metadata of a call of many requests that count for each of them: who
// calls. An id or a trace there would be that of one of them.
type callerFields struct{ ctx context.Context }

// Values implements fields.
func (c callerFields) Values(name string) []string {
	if name != authorization && name != ownToken {
		return nil
	}
	return incoming(c.ctx)[name]
}

// Failure returns the status with which a call would have ended; nil for an answer.
func (a *Asked) Failure() *status.Status {
	if a.call.err == nil {
		return nil
	}
	return status.Convert(a.call.err)
}

// ReplySize returns how many bytes AppendReply appends.
func (a *Asked) ReplySize() int { return a.call.answer.size() }

// AppendReply appends the answer, an encoded RateLimitResponse, to b.
func (a *Asked) AppendReply(b []byte) []byte { return a.call.answer.append(b) }
