package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

const (
	// A call whose script provably did not run is made again after a pause drawn
	// between these two.
	minRetryPause = time.Millisecond
	maxRetryPause = 4 * time.Millisecond
	// maxRedirections bounds how often a call follows a redirection.
	maxRedirections = 3
	// maxWaits bounds how often a call looks for another server in the place of one
	// that has left the cluster.
	maxWaits = 8
)

// body is what a script call says and what it hears: takes, for one.
type body interface {
	// encode returns KEYS and ARGV of the script. They are valid until the body is
	// encoded again, or decoded.
	encode(h header) (keys, args []string)
	// decode reads the answer to call number. It must not keep anything of an
	// answer whose status is not statusDecided.
	decode(answer []resp.Message, number uint32) (head, error)
}

// call is one script call, with the few ways in which it is made again. It has
// an outcome, now or err, when retry has returned false.
type call struct {
	caller   *caller
	script   *script
	body     body
	tag      int // see caller.tag
	deadline time.Time

	at     *shard    // who is asked; nil until aimed
	asking bool      // for a hash slot that at is about to take over
	number uint32    // of the last attempt
	keys   int       // of the last attempt
	seeds  *seedBody // what the last attempt told the server before; nil if nothing

	// What has been made good, how often, and will not be for ever.
	triedEval, triedClock, triedEdges, triedRetry bool
	redirections, waits                           int

	now limit.Micros // of Redis's clock, at which the body was decided
	err error        // a *store.Error
}

// run makes the call, and makes it again where the answer proves that nothing
// was counted and the cause can be removed.
func (c *call) run(ctx context.Context) {
	for {
		again, pause := c.retry(c.attempt(ctx))
		if !again {
			return
		}
		if pause > 0 {
			_ = sleep.For(ctx, pause)
		}
	}
}

// attempt makes one attempt.
func (c *call) attempt(ctx context.Context) (head, error) {
	if err := c.aim(); err != nil {
		return head{}, err
	}
	t, err := c.at.Enter(ctx)
	if err != nil {
		return head{}, err
	}
	var answer resp.Answer
	command, pipe := c.command(t), t.Session.Pipe
	if seed, ok := c.seedCommand(t); c.asking {
		// One unit: nothing of others can come between the two.
		all := pipe.AskAll(ctx, resp.Words("ASKING"), command)
		answer = all[len(all)-1]
	} else if ok {
		all := pipe.AskAll(ctx, seed, command)
		c.readSeeded(t, all[0])
		answer = all[1]
	} else {
		answer = pipe.Ask(ctx, command)
	}
	message, err := answer.Message()
	if c.onlyDenied(err) {
		c.at.Leave(t, nil)
	} else {
		c.at.Leave(t, err)
	}
	return c.read(t.Session, message, err)
}

// onlyDenied reports whether err only says that the user may not make a call that decides
// nothing: calls that decide go on as if nothing had been asked.
func (c *call) onlyDenied(err error) bool {
	if err == nil || !conn.IsReply(err) || !c.script.optional {
		return false
	}
	reason, _ := conn.Classify(err)
	return reason == store.Denied
}

// aim looks up whom to ask, if nobody has said so yet.
func (c *call) aim() error {
	if c.at != nil {
		return nil
	}
	at, fault := c.caller.shard(c.tag)
	if fault != nil {
		return fault
	}
	c.at = at
	return nil
}

// command builds the command of the next attempt.
func (c *call) command(t conn.Trip) resp.Command {
	s, se := c.caller, t.Session
	c.number = s.number.Add(1)
	h := header{number: c.number, wall: se.RedisTime(t.Began), history: se.History}
	if s.clock != nil {
		h.now = max(s.clock(), 1) // 0 is Redis's own clock
		h.wall = h.now
	} else {
		h.deadline = max(se.RedisTime(c.deadline), 1)
	}
	keys, args := c.body.encode(h)
	c.keys = len(keys)
	name, script := "EVALSHA", c.script.sha()
	if c.triedEval {
		name, script = "EVAL", c.script.text()
	}
	return resp.Script(name, script, keys, args)
}

// read reads the answer of an attempt.
func (c *call) read(se *conn.Session, answer resp.Message, err error) (head, error) {
	if err != nil {
		return head{}, err
	}
	list, err := answer.List()
	if err != nil {
		return head{}, conn.ErrBadReply
	}
	h, err := c.body.decode(list, c.number)
	if err != nil {
		// The connection gives answers to other questions: it is of no use.
		se.End(err)
		return head{}, err
	}
	switch {
	case c.caller.clock != nil:
	case h.status == statusLate:
		se.SetClock(h.now)
	default:
		se.LearnClock(h.now)
	}
	return h, nil
}

// retry reports whether the call has to be made again, and after what pause. If
// not it notes the outcome.
func (c *call) retry(h head, err error) (again bool, pause time.Duration) {
	switch {
	case err == nil && h.status == statusDecided:
		c.now = h.now
		return false, 0
	case err == nil && h.status == statusLate:
		// The answer is here before the deadline, so it was not late: our idea
		// of Redis's clock was wrong.
		if c.at.calls.late.Add(1); tried(&c.triedClock) && time.Now().Before(c.deadline) {
			return true, 0
		}
		err = conn.ErrLate
	case err == nil && h.status == statusEdges:
		if tried(&c.triedEdges) {
			return true, 0
		}
		err = conn.ErrWindow
	case err == nil:
		err = conn.ErrBadReply
	default:
		if again, pause := c.mend(err); again {
			return true, pause
		}
	}
	c.fail(err)
	return false, 0
}

// tried sets what has not been tried yet and reports whether it has not.
func tried(flag *bool) bool {
	before := *flag
	*flag = true
	return !before
}

// mend removes the cause of an error that proves that the script did not run,
// if it can.
func (c *call) mend(err error) (again bool, pause time.Duration) {
	if conn.IsNoScript(err) {
		return tried(&c.triedEval), 0
	}
	if router := c.caller.router; router != nil {
		if r, ok := redirectionOf(err); ok {
			return c.redirect(router, r), 0
		}
		if c.waitForServer(err) {
			return true, retryPause()
		}
	}
	if conn.NeverRan(err) && !c.splits(err) && tried(&c.triedRetry) {
		return true, retryPause()
	}
	return false, 0
}

func retryPause() time.Duration { return minRetryPause + rand.N(maxRetryPause-minRetryPause) }

// redirect aims the call at the target of a redirection.
func (c *call) redirect(router *router, r redirection) bool {
	if c.redirections++; c.redirections > maxRedirections || r.ask && c.keys > 1 {
		return false
	}
	target := router.redirect(c.tag, c.at, r)
	if target == nil {
		return false
	}
	c.at.calls.redirected.Add(1)
	c.at, c.asking = target, r.ask
	return true
}

// waitForServer reports whether an error is that of a server whose first connection
// is being made, or of one that has left the cluster; the next attempt may find
// another one. Nothing was sent. The first connection is waited for until it is there
// or has failed, or the call is over: how long it takes is a matter of the machine.
func (c *call) waitForServer(err error) bool {
	if c.at == nil || !time.Now().Before(c.deadline) {
		return false
	}
	if errors.Is(err, conn.ErrRetired) && c.waits < maxWaits {
		c.waits++
		c.at, c.asking = nil, false
		return true
	}
	return errors.Is(err, conn.ErrFirstDial)
}

// splits reports whether err means that the keys of the call lie on two servers
// now, because their hash slot is being moved. One by one they can be asked for.
func (c *call) splits(err error) bool {
	if c.caller.router == nil || c.keys < 2 {
		return false
	}
	r, redirected := redirectionOf(err)
	return redirected && r.ask || conn.IsTryAgain(err)
}

// fail notes the error that the call ends with.
func (c *call) fail(err error) {
	switch {
	case c.splits(err):
		c.err = conn.ErrApart
	case c.at == nil:
		c.err = c.caller.options.Fault("take", err)
	default:
		c.err = c.at.Fault("take", err)
	}
}
