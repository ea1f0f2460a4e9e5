// Package nonblock writes lines without ever waiting for who reads them.
//
// A pipe of logs whose reader has stalled is full after 64 KiB, and whoever writes to it
// then waits for ever, with all locks that it holds. A Writer keeps lines in a buffer that
// one goroutine writes out. When the buffer is full, lines are dropped and counted: a
// process that decides is worth more than a line about it. Lines that wait when the
// process crashes are lost.
package nonblock

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

const (
	// maxWaiting bounds the lines that wait, in bytes: some 5,000 lines of 200 bytes, and
	// so seconds of a log that says a lot.
	maxWaiting = 1 << 20
	// lineBytes is what a line takes beside its text.
	lineBytes = 64
)

// Options configures a Writer.
type Options struct {
	// Notice returns the line that says how many lines were dropped, with its end. It is
	// called from another goroutine. nil: nothing says so, and lines are dropped all the
	// same.
	Notice func(dropped uint64) []byte
}

// Writer is an io.Writer that never waits. It is safe for concurrent use. Make one with
// New.
type Writer struct {
	to      io.Writer
	notice  func(uint64) []byte
	dropped atomic.Uint64
	wake    sleep.Nudge   // holds one value while run has something to look at
	done    chan struct{} // closed when run has ended

	mu struct {
		sync.Mutex
		queue  []line
		bytes  int    // of queue
		behind uint64 // lines that were dropped after the last one of queue
		closed bool
	}
}

// line is one line, or several that were written at once.
type line struct {
	text []byte
	// before is the number of lines that were dropped right before this one.
	before uint64
}

// New returns a Writer that writes to another one, from one goroutine alone. Close ends it.
func New(to io.Writer, o Options) *Writer {
	w := &Writer{to: to, notice: o.Notice, wake: sleep.NewNudge(), done: make(chan struct{})}
	go w.run()
	return w
}

// Write implements io.Writer. It takes a copy of text, which has to be whole lines, or
// drops it. It always reports success: who logs can do nothing about it.
func (w *Writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	switch {
	case w.mu.closed:
		w.dropped.Add(1)
	case w.mu.bytes+len(text)+lineBytes > maxWaiting:
		w.mu.behind++
		w.dropped.Add(1)
	default:
		w.mu.queue = append(w.mu.queue, line{append([]byte(nil), text...), w.mu.behind})
		w.mu.bytes += len(text) + lineBytes
		w.mu.behind = 0
	}
	w.mu.Unlock()
	w.look()
	return len(text), nil
}

// Dropped returns how many lines were dropped since the start: those that found the buffer
// full, and those that could not be written.
func (w *Writer) Dropped() uint64 { return w.dropped.Load() }

// Close writes out what waits, for patience at most, and reports whether all of it was.
// What is written afterwards is dropped. Where who reads has stalled, one goroutine still
// waits for it when Close returns.
func (w *Writer) Close(patience time.Duration) bool {
	w.mu.Lock()
	w.mu.closed = true
	w.mu.Unlock()
	w.look()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.done:
		return true
	case <-timer.C:
		return false
	}
}

// look has run look at the queue.
func (w *Writer) look() { w.wake.Give() }

// run writes what waits until Close was called and nothing does.
func (w *Writer) run() {
	defer close(w.done)
	out := output{to: w.to, notice: w.notice}
	for range w.wake {
		for {
			next, ok := w.next()
			if !ok {
				break
			}
			out.owed += next.before
			if !out.write(next.text) {
				w.dropped.Add(1)
			}
		}
		w.mu.Lock()
		out.owed += w.mu.behind
		w.mu.behind = 0
		closed := w.mu.closed && len(w.mu.queue) == 0
		w.mu.Unlock()
		out.tellDropped()
		if closed {
			return
		}
	}
}

// next takes the line that waits longest; ok is false when none does.
func (w *Writer) next() (next line, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.mu.queue) == 0 {
		w.mu.queue = nil // of which the head is used up
		return line{}, false
	}
	next = w.mu.queue[0]
	w.mu.queue[0] = line{}
	w.mu.queue = w.mu.queue[1:]
	w.mu.bytes -= len(next.text) + lineBytes
	return next, true
}

// output is where lines go, and what it still owes to those who read it. Only run uses it.
type output struct {
	to     io.Writer
	notice func(uint64) []byte
	owed   uint64 // lines that were dropped and of which no notice was written
	broken bool   // the last write failed
	torn   bool   // what was written last has no end
}

// write writes a line, and before it how many were dropped, if any were. It reports whether
// the line was written whole.
func (o *output) write(text []byte) bool {
	if o.announce() && o.put(text) {
		return true
	}
	o.owed++
	return false
}

// tellDropped says how many lines were dropped after the last that was written. Where that one
// could not be written either, it waits for the next.
func (o *output) tellDropped() {
	if !o.broken {
		o.announce()
	}
}

// announce says how many lines were dropped, and reports whether all is said.
func (o *output) announce() bool {
	if o.owed > 0 && o.notice != nil && !o.put(o.notice(o.owed)) {
		return false
	}
	o.owed = 0
	return true
}

// put writes text, which has an end, behind what has one.
func (o *output) put(text []byte) bool {
	if o.torn {
		text = append([]byte("\n"), text...)
	}
	n, err := o.to.Write(text)
	o.broken = err != nil
	if n > 0 {
		o.torn = err != nil
	}
	return err == nil
}
