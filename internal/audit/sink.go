package audit

import (
	"context"
	"net"
)

// Sink is where events go. Write, Counts and Close are for the Recorder.
type Sink interface {
	// Name is the place to people, without secrets.
	Name() string
	// Write takes a batch over. It waits for nothing: each of the events counts as
	// written or as failed, now or later.
	Write(Batch)
	// Counts returns what became of events so far. Both counts only grow. err is why
	// none is written at present, nil when nothing is known to be wrong; it holds no
	// secret.
	Counts() (written, failed uint64, err error)
	// Close writes what waits until ctx ends and counts the rest as failed; the error
	// says how much that was. The counts stay as they are then.
	Close(ctx context.Context) error
}

// Batch is some events in the order of their decisions. Nobody changes it any more: it
// may be kept.
type Batch struct {
	// Lines are the events as JSON, each with a line end.
	Lines []byte
	// Events are where they are.
	Events []Line
}

// Line is one event of a Batch.
type Line struct {
	// Key is the key of the event, as it is written in it.
	Key string
	// End is where the line ends in Batch.Lines, past its line end.
	End int
}

// start is where event i begins in Lines.
func (b *Batch) start(i int) int {
	if i == 0 {
		return 0
	}
	return b.Events[i-1].End
}

// line returns event i without its line end.
func (b *Batch) line(i int) []byte {
	end := b.Events[i].End - 1
	return b.Lines[b.start(i):end:end]
}

// SinkOptions configures a sink.
type SinkOptions struct {
	// Node names this node: Options.Node.
	Node string
	// Buffer bounds the events that wait to be written; 0 means defaultBuffer. When
	// more come they count as failed.
	Buffer int
	// Via, when not nil, returns what makes connections to brokers in the place of dial,
	// which it may call. TLS is put on what it makes. A sink without connections does not
	// use it.
	Via func(dial Dialer) Dialer
}

// Dialer makes a connection, as net.Dialer.DialContext does.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)
