package respfront

import (
	"context"
	"errors"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/turns"
	"github.com/headgate/headgate/store"
)

// maxBatch bounds the checks that are decided together.
const maxBatch = 64

// kind says which checks may be decided together: those of one kind need the same rights, so
// that either all of them are refused for want of a right, or none.
type kind uint8

const (
	throttles kind = iota + 1
	checks
	// alone is a check that gives back, or has an id: it may be refused for what it is about.
	alone
)

// batch is the checks that have been read and not decided yet. Its memory is used again, and is as
// much as the largest batch has taken.
type batch struct {
	kind      kind
	requests  []headgate.Request
	responses []headgate.Response
	slots     []*slot
	id        string // of the one check of the kind alone
}

// slot is the memory of one check.
type slot struct {
	descriptor [1]headgate.Descriptor
	entries    []descriptor.Entry
	// named is set for a limit that the caller named.
	named bool
}

// takes reports whether a check of that kind may be decided with those that wait.
func (b *batch) takes(k kind) bool {
	n := len(b.requests)
	return n == 0 || n < maxBatch && b.kind == k && k != alone
}

// kindOf returns the kind of a check that does op.
func kindOf(k kind, op store.Op, id string) kind {
	if op != store.Hit || id != "" {
		return alone
	}
	return k
}

// next returns the memory of the next check, of that kind, for add.
func (b *batch) next(k kind) *slot {
	b.kind = k
	if len(b.requests) == len(b.slots) {
		b.slots, b.responses = append(b.slots, new(slot)), append(b.responses, headgate.Response{})
	}
	return b.slots[len(b.requests)]
}

// add adds the check whose entries are in what next has returned. id names it, "" for none.
func (b *batch) add(domain string, d headgate.Descriptor, id string) {
	at := b.slots[len(b.requests)]
	d.Entries = at.entries
	at.descriptor[0] = d
	b.requests, b.id = append(b.requests, headgate.Request{Domain: domain, Descriptors: at.descriptor[:]}), id
}

// clear forgets the checks, and what they hold of commands and of rules.
func (b *batch) clear() {
	clear(b.requests)
	for i := range b.requests {
		clear(b.slots[i].entries)
		b.slots[i].descriptor[0] = headgate.Descriptor{}
		verdicts := b.responses[i].Verdicts
		clear(verdicts)
		b.responses[i] = headgate.Response{Verdicts: verdicts[:0]}
	}
	b.requests, b.kind, b.id = b.requests[:0], 0, ""
}

// decide asks c about all checks, which take one turn.
func (b *batch) decide(ctx context.Context, places *turns.Turns, c Checker) error {
	ctx, end := places.Begin(ctx)
	defer end()
	responses := b.responses[:len(b.requests)]
	if b.id != "" {
		return c.CheckOnce(ctx, b.requests, []string{b.id}, responses)
	}
	return c.Check(ctx, b.requests, responses)
}

// decide decides the checks that wait and appends their answers.
func (s *session) decide() {
	b := &s.batch
	if len(b.requests) == 0 {
		return
	}
	defer b.clear()
	checker, err := s.enter()
	if err == nil {
		if err = b.decide(s.server.ctx, s.server.turns, checker); err != nil {
			err = refuse("%s %v", refusalKind(err), err)
		}
	}
	for i := range b.requests {
		switch {
		case err != nil:
			s.reply.fail(err.Error())
		case b.slots[i].named:
			s.reply.answerThrottle(&b.responses[i].Verdicts[0])
		default:
			summary := s.server.encoder.Summarize(&b.responses[i])
			s.reply.answerConfigured(&b.responses[i], &summary)
		}
	}
}

// refusalKind returns the first word of the reply to an error of a Checker.
func refusalKind(err error) string {
	if _, ok := errors.AsType[*headgate.RightsError](err); ok {
		return "NOPERM"
	}
	return "ERR"
}
