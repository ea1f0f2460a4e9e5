package rulesource

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A change is looked at once nothing has moved for quiet, so that a file that
// is written in pieces is read once, and after atMost in any case, so that
// rules are in force within a second of their change.
const (
	quiet  = 50 * time.Millisecond
	atMost = 400 * time.Millisecond
)

// Run watches the files until ctx ends. Directories are watched, not files: an
// editor and a Kubernetes volume replace what a file watch is attached to.
func (s *Source) Run(ctx context.Context) {
	if s.o.Path == "" {
		<-ctx.Done()
		return
	}
	w := s.openWatch()
	defer w.close()
	s.follow(ctx, w)
}

func (s *Source) follow(ctx context.Context, w *watch) {
	poll := time.NewTicker(s.o.Poll)
	defer poll.Stop()
	q := newQuietTimer()
	defer q.timer.Stop()
	look := func(again bool) {
		s.check(again)
		if w.rewatch(s) {
			q.moved(s.o.Now())
		}
	}
	look(false) // what changed since Load, before the watch
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.forced:
			look(true)
		case <-poll.C:
			look(false)
		case e := <-w.events:
			if w.interest.touches(e.Name) {
				q.moved(s.o.Now())
			}
		case <-q.timer.C:
			q.since = time.Time{}
			look(false)
		case err := <-w.errors:
			// An overflow of the queue lost events: look now.
			s.notWatched(fmt.Errorf("watch rule files: %w", err))
			q.moved(s.o.Now())
		}
	}
}

// quietTimer is a timer that runs from the last of several changes, but no longer
// than atMost from the first.
type quietTimer struct {
	timer *time.Timer
	since time.Time // of the first change; zero when there is none
}

func newQuietTimer() *quietTimer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &quietTimer{timer: t}
}

func (q *quietTimer) moved(now time.Time) {
	if q.since.IsZero() {
		q.since = now
	}
	q.timer.Reset(wait(now.Sub(q.since)))
}

// wait returns how long to wait for quiet when changes have been coming for d.
func wait(d time.Duration) time.Duration {
	return max(0, min(quiet, atMost-d))
}

// watch is the set of watched directories. Its channels are nil, and so never
// ready, when the operating system offers no watch.
type watch struct {
	watcher  *fsnotify.Watcher
	events   chan fsnotify.Event
	errors   chan error
	interest interest
	failed   map[string]bool
}

func (s *Source) openWatch() *watch {
	w := &watch{failed: map[string]bool{}}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		s.notWatched(fmt.Errorf("watch rule files: %w; hint: changes are found every %v; raise fs.inotify.max_user_instances", err, s.o.Poll))
		return w
	}
	w.watcher, w.events, w.errors = watcher, watcher.Events, watcher.Errors
	return w
}

func (w *watch) close() {
	if w.watcher != nil {
		w.watcher.Close()
	}
}

// rewatch makes the watched directories those of the last look, and reports
// whether there is a new one: what happened in it between the look and the
// watch was not seen. A directory that has gone and come back is a new one.
func (w *watch) rewatch(s *Source) (added bool) {
	if w.watcher == nil {
		return false
	}
	s.mu.Lock()
	w.interest = s.mu.watch
	s.mu.Unlock()
	have := w.watcher.WatchList()
	for _, dir := range have {
		if !slices.Contains(w.interest.dirs, dir) {
			// It fails for a directory that has gone, which is as well.
			_ = w.watcher.Remove(dir)
		}
	}
	for _, dir := range w.interest.dirs {
		if slices.Contains(have, dir) {
			continue
		}
		err := w.watcher.Add(dir)
		if err != nil && !w.failed[dir] {
			s.notWatched(fmt.Errorf("watch %s: %w; hint: its changes are found every %v", dir, err, s.o.Poll))
		}
		w.failed[dir] = err != nil
		added = added || err == nil
	}
	return added
}

// notWatched tells that changes are only found by looking again.
func (s *Source) notWatched(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportLocked(NotWatched, err)
}
