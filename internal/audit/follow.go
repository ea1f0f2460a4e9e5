package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/internal/view"
)

// Errors of followers.
var (
	ErrTooManyFollowers = fmt.Errorf("follow events: %d do already; hint: try again later", maxFollowers)
	ErrClosed           = errors.New("follow events: no more come")
)

// followerBuffer is how many events wait for a follower.
const followerBuffer = 256

// Follower gets events as they come. Its methods are for one goroutine, but for Close.
type Follower struct {
	all     *followers
	matches func(*view.Event) bool
	events  chan view.Event
	dropped atomic.Uint64
	done    chan struct{}
}

// Next waits for the next event. dropped is how many were lost since Next returned
// last: there were more than 256 that this follower had not yet asked for. The error
// is that of ctx, or ErrClosed when no more come.
func (f *Follower) Next(ctx context.Context) (e view.Event, dropped uint64, err error) {
	select {
	case e = <-f.events:
	case <-ctx.Done():
		err = ctx.Err()
	case <-f.done:
		select {
		case e = <-f.events:
		default:
			err = ErrClosed
		}
	}
	return e, f.dropped.Swap(0), err
}

// Close ends following. It may be called more than once, and while Next waits.
func (f *Follower) Close() { f.all.remove(f) }

// followers are all who follow.
type followers struct {
	mu     sync.Mutex
	list   []*Follower
	closed bool
}

// Follow returns a Follower of the events that f chooses, from now on. The caller
// closes it. ErrTooManyFollowers is for one more than maxFollowers, ErrClosed for one
// after Close.
func (r *Recorder) Follow(f view.EventFilter) (*Follower, error) {
	all := &r.followers
	all.mu.Lock()
	defer all.mu.Unlock()
	switch {
	case all.closed:
		return nil, ErrClosed
	case len(all.list) >= maxFollowers:
		return nil, ErrTooManyFollowers
	}
	follower := &Follower{
		all: all, matches: matcher(f, r.hasher),
		events: make(chan view.Event, followerBuffer), done: make(chan struct{}),
	}
	all.list = append(all.list, follower)
	return follower, nil
}

// any reports whether somebody follows.
func (all *followers) any() bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return len(all.list) > 0
}

// tell hands events to those who want them.
func (all *followers) tell(events []view.Event) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, f := range all.list {
		for i := range events {
			if !f.matches(&events[i]) {
				continue
			}
			select {
			case f.events <- events[i]:
			default:
				f.dropped.Add(1)
			}
		}
	}
}

func (all *followers) remove(f *Follower) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for i, other := range all.list {
		if other == f {
			all.list = append(all.list[:i], all.list[i+1:]...)
			close(f.done)
			return
		}
	}
}

// close ends following for all; what waits for them they still get.
func (all *followers) close() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.closed = true
	for _, f := range all.list {
		close(f.done)
	}
	all.list = nil
}
