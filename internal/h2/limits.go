package h2

import (
	"cmp"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Bounds of what one connection may cost. A connection that breaks one is told so by
// GOAWAY or RST_STREAM, and the event is counted.
const (
	// maxFrame is the longest payload of a frame: SETTINGS_MAX_FRAME_SIZE by default.
	maxFrame = 16 << 10
	// maxRead is how much is read before what has come is answered.
	maxRead = 32 << 10
	// maxBatch is the most calls that are answered together.
	maxBatch = 64
	// maxAir is the most batches of one connection that wait for a store at one time.
	// What comes meanwhile gathers in the socket, so that the next batch is larger.
	maxAir = 4
	// maxBlock is the longest block of header fields as it is sent, and maxContinuations
	// into how many further frames it may be cut.
	maxBlock         = 16 << 10
	maxContinuations = 8
	// maxHeaderList is the most bytes of the fields of one block as RFC 9113, section
	// 6.5.2 counts them: with 32 for each field. maxFields bounds their number. What is
	// beyond is decoded, because the table of the sender has changed by it, and dropped.
	maxHeaderList = 16 << 10
	maxFields     = 64
	fieldOverhead = 32
	// maxResizes is how often one block may change the size of the table of fields: down to
	// the least that it was since the last block, and to what it is now (RFC 7541, section 4.2).
	maxResizes = 2
	// maxLongLists is how often a connection may go beyond them.
	maxLongLists = 1
	// maxFast is the longest body of a fast call. A longer one is a slow stream.
	maxFast = 64 << 10
	// ownBodies is how many bytes of the bodies of fast calls a connection holds without
	// regard to Limits.FastBytes, and leaseStep by how much it takes of that.
	ownBodies = 64 << 10
	leaseStep = 64 << 10
	// messageStep is how much later than its own timeout a call may be ended whose message
	// does not come: so seldom does a connection look for them.
	messageStep = 10 * time.Millisecond
	// streamWindow is what a client may send on a stream, and connWindow on all of a
	// connection, before it has been taken in.
	streamWindow = 128 << 10
	connWindow   = 1 << 20
	// maxOut is the most bytes that wait to be written; above lowOut the connection is not
	// read, and above midOut answers are held as if there were no window for them.
	maxOut = 256 << 10
	midOut = 128 << 10
	lowOut = 64 << 10
	// ownAnswers is how many bytes of answers that are held a connection has without regard to
	// Limits.FastBytes.
	ownAnswers = 256 << 10
	// maxDropped is the most bytes that are read and dropped after a GOAWAY for an error.
	maxDropped = 256 << 10
	// maxSettings is the most entries of one SETTINGS frame.
	maxSettings = 32
	// allowance is how many frames that ask for nothing a client may send ahead of the
	// calls that it makes; each call that ends, and each piece of an answer that waited, earns
	// perCall, each second one.
	allowance = 100
	perCall   = 4
	// maxAllowance bounds what is earned.
	maxAllowance = 2000
	// earlyResets is how many streams a client may reset before their own timeout, or
	// have reset by mistakes, without regard to how many it has opened. Beyond it, at
	// most half of all.
	earlyResets = 100
	// maxWindow is the largest window of flow control.
	maxWindow = 1<<31 - 1
	// closedRing is how many streams that have ended are remembered.
	closedRing = 64
)

// Limits are the times and counts that whoever runs a Server may set. The zero value of
// a field stands for its default.
type Limits struct {
	// MaxStreams is the most calls of one connection that are open at one time; 0
	// means 1,024. A call keeps its place until its work is done, whoever reset it.
	MaxStreams int
	// HandshakeTimeout is the time for the preface, the first SETTINGS and their
	// acknowledgement; 0 means 10 s.
	HandshakeTimeout time.Duration
	// HeaderTimeout is the time from a HEADERS frame to the end of its block; 0 means 5 s.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a silent connection is left alone before it is asked
	// whether anybody is there; 0 means 60 s. PingTimeout is the time for the answer, and
	// on Linux also for the acknowledgement of any byte that was sent (TCP_USER_TIMEOUT); 0
	// means 20 s.
	IdleTimeout, PingTimeout time.Duration
	// WriteTimeout is how long answers may wait for a client that does not read, or
	// gives no window; 0 means 10 s. An answer of a slow stream is alone in being ended then.
	WriteTimeout time.Duration
	// Age is after which time a connection is ended gently, so that clients spread over
	// new servers; 0 means 5 minutes, and negative never. It differs by up to 10 % between
	// connections.
	Age time.Duration
	// Grace is how long calls may still run on a connection that is ended gently; 0
	// means 30 s.
	Grace time.Duration
	// SlowBytes is the most bytes of slow streams, of all connections together, that
	// nobody has read yet; 0 means 64 MiB. Beyond it slow streams are refused.
	SlowBytes int64
	// FastBytes is the most bytes of the bodies of fast calls, and of answers for which clients
	// give no window, of all connections together, beyond the first 64 KiB and 256 KiB of each
	// connection; 0 means 64 MiB. A call for whose body there is no room is answered by
	// UNAVAILABLE; a connection without room for an answer ends.
	FastBytes int64
}

func (l Limits) withDefaults() Limits {
	l.MaxStreams = cmp.Or(l.MaxStreams, 1024)
	l.HandshakeTimeout = cmp.Or(l.HandshakeTimeout, 10*time.Second)
	l.HeaderTimeout = cmp.Or(l.HeaderTimeout, 5*time.Second)
	l.IdleTimeout = cmp.Or(l.IdleTimeout, time.Minute)
	l.PingTimeout = cmp.Or(l.PingTimeout, 20*time.Second)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, 10*time.Second)
	l.Age = cmp.Or(l.Age, 5*time.Minute)
	l.Grace = cmp.Or(l.Grace, 30*time.Second)
	l.SlowBytes = cmp.Or(l.SlowBytes, 64<<20)
	l.FastBytes = cmp.Or(l.FastBytes, 64<<20)
	return l
}

// age returns after which time one connection is ended gently.
func (l *Limits) age() time.Duration {
	return l.Age - l.Age/10 + rand.N(l.Age/5+1)
}

// Event is something that a Server counts.
type Event uint8

// The events.
const (
	// Connections that were begun, and of those the ones that never spoke HTTP/2.
	Connected Event = iota
	NoPreface
	// Calls that were answered by a batch, batches, and streams that went to Slow.
	Calls
	Batches
	SlowStreams
	// Connections cut off, by cause.
	Malformed    // frames, header blocks or states against RFC 9113
	Flooded      // more frames that ask for nothing than is allowed
	ResetTooMuch // more early resets than is allowed
	LongHeaders  // blocks or lists of header fields beyond their bounds
	TooSlow      // a client that did not read, acknowledge or finish in time
	Silent       // a client that did not answer a PING
	Aged         // ended gently because of their age
	// Streams refused or reset by the server, by cause.
	Refused     // too many at one time
	StreamError // malformed, or out of window
	Panicked    // a batch that panicked
	NoRoom      // a body that was too much for all connections together
	NoMessage   // a call whose message did not come by its own timeout
	Unread      // a slow answer for which the client gave no window in time
	events
)

// eventNames are the names of events in metrics.
var eventNames = [events]string{
	"connected", "no_preface", "calls", "batches", "slow_streams",
	"malformed", "flooded", "reset_too_much", "long_headers", "too_slow", "silent", "aged",
	"refused", "stream_error", "panicked", "no_room", "no_message", "unread",
}

// String returns the name of e in metrics, such as "reset_too_much".
func (e Event) String() string { return eventNames[e] }

// Counters count events. The zero value is ready; it is safe for concurrent use.
type Counters struct {
	counts [events]atomic.Uint64
}

func (c *Counters) add(e Event, n int) { c.counts[e].Add(uint64(n)) }

// Of returns how often e has happened.
func (c *Counters) Of(e Event) uint64 { return c.counts[e].Load() }

// Each calls f for every event with how often it has happened.
func (c *Counters) Each(f func(e Event, n uint64)) {
	for e := range events {
		f(e, c.counts[e].Load())
	}
}
