package denialog

import (
	"context"
	"log/slog"
	"sync"
)

// maxWaiting bounds the lines that wait to be written.
const maxWaiting = 256

// writer writes lines in the order in which they come, while nobody waits. Its goroutine
// lives as long as there are lines.
type writer struct {
	handler slog.Handler

	mu struct {
		sync.Mutex
		waiting []slog.Record
		writing bool
	}
}

// write takes a line, and reports whether there was room for it. A line that the handler
// does not want is taken too.
func (w *writer) write(line slog.Record) bool {
	if !w.handler.Enabled(context.Background(), line.Level) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.mu.waiting) == maxWaiting {
		return false
	}
	w.mu.waiting = append(w.mu.waiting, line)
	if !w.mu.writing {
		w.mu.writing = true
		go w.drain()
	}
	return true
}

// drain writes until nothing waits. What a handler fails to write is lost, as with any
// line of a log.
func (w *writer) drain() {
	for lines := w.next(); len(lines) > 0; lines = w.next() {
		for i := range lines {
			_ = w.handler.Handle(context.Background(), lines[i])
		}
	}
}

// next takes the lines that wait; none ends the writer.
func (w *writer) next() []slog.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.mu.waiting
	w.mu.waiting, w.mu.writing = nil, len(lines) > 0
	return lines
}
