package cli

import (
	"context"
	"errors"
	"io"
)

// errInterrupted is of what is read no further because the command is to end.
var errInterrupted = errors.New("interrupted")

// endable reads what may have nothing to read for ever: a terminal, or a named pipe without a writer, of which
// even the opening waits. Neither can be called back, so a goroutine does both, and what is read ends with the
// context of the command. A goroutine that still waits then is left to the end of the process.
type endable struct {
	ctx  context.Context
	open func() (io.ReadCloser, error)
	from *io.PipeReader // nil before the first read
	stop func() bool
}

// untilEnd returns what reads what open opens, once, until ctx ends. It opens at the first read.
func untilEnd(ctx context.Context, open func() (io.ReadCloser, error)) io.ReadCloser {
	return &endable{ctx: ctx, open: open}
}

// until returns std with a standard input that ends when ctx does.
func (std *stdio) until(ctx context.Context) *stdio {
	ends := *std
	in := std.in
	ends.in = untilEnd(ctx, func() (io.ReadCloser, error) { return io.NopCloser(in), nil })
	return &ends
}

// Read implements io.Reader.
func (w *endable) Read(p []byte) (int, error) {
	if w.from == nil {
		w.begin()
	}
	return w.from.Read(p)
}

// begin has a goroutine open and read.
func (w *endable) begin() {
	from, to := io.Pipe()
	w.from = from
	w.stop = context.AfterFunc(w.ctx, func() { to.CloseWithError(errInterrupted) })
	go func() {
		file, err := w.open()
		if err == nil {
			_, err = io.Copy(to, file)
			err = errors.Join(err, file.Close())
		}
		to.CloseWithError(err) // nil is the end
	}()
}

// Close implements io.Closer. Who writes to a pipe that nobody reads is told so.
func (w *endable) Close() error {
	if w.from == nil {
		return nil
	}
	w.stop()
	return w.from.Close()
}
