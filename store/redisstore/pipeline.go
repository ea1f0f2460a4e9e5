package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// pipeline makes several calls at one shard, which leave together. Those that are
// redirected then go on alone.
func pipeline(ctx context.Context, at *shard, calls []*call) {
	var redirected []*call
	for len(calls) > 1 {
		t, err := at.Enter(ctx)
		if err != nil {
			// Alone each finds out what there is to do about it.
			break
		}
		answers := exchange(ctx, t, calls)
		at.Leave(t, worst(answers))
		var (
			rest  []*call
			pause time.Duration
		)
		for i, c := range calls {
			message, err := answers[i].Message()
			again, after := c.retry(c.read(t.Session, message, err))
			switch {
			case again && c.at == at:
				rest, pause = append(rest, c), max(pause, after)
			case again:
				redirected = append(redirected, c)
			}
		}
		if calls = rest; len(calls) > 0 && pause > 0 {
			_ = sleep.For(ctx, pause)
		}
	}
	for _, c := range append(redirected, calls...) {
		c.run(ctx)
	}
}

// exchange makes one attempt of each call, and returns the answers in their order.
func exchange(ctx context.Context, t conn.Trip, calls []*call) []resp.Answer {
	var seeds, commands []resp.Command
	var seeded []*call
	for _, c := range calls {
		commands = append(commands, c.command(t))
		if seed, ok := c.seedCommand(t); ok {
			seeds, seeded = append(seeds, seed), append(seeded, c)
		}
	}
	answers := t.Session.Pipe.AskAll(ctx, append(seeds, commands...)...)
	for i, c := range seeded {
		c.readSeeded(t, answers[i])
	}
	return answers[len(seeds):]
}

// worst returns the error that says most about the server: that of the
// connection before that of a reply.
func worst(answers []resp.Answer) error {
	var found error
	for i := range answers {
		err := answers[i].Err()
		if errors.Is(err, resp.ErrNil) {
			continue
		}
		if err != nil && (found == nil || conn.AboutTheCall(found) || !conn.IsReply(err)) {
			found = err
		}
	}
	return found
}
