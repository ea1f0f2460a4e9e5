package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/filelock"
	"github.com/headgate/headgate/internal/sleep"
)

// maxWaitingBytes bounds the events that wait for a sink, beside their number.
const maxWaitingBytes = 64 << 20

// retryEvery is how often a directory is tried that cannot be written.
const retryEvery = time.Second

// filesConfig is what the URL of a directory says.
type filesConfig struct {
	dir string
	// A file is finished at maxSize bytes, or when it is maxAge old.
	maxSize int64
	maxAge  time.Duration
	// Finished files are removed keep after their last event, and the oldest of them
	// when all have more than keepSize bytes.
	keep     time.Duration
	keepSize int64
	// sync is the longest time until what is written is on disk; syncAlways is before
	// it counts as written, syncNever is left to the system.
	sync     time.Duration
	compress bool
}

const (
	syncAlways time.Duration = 0
	syncNever  time.Duration = -1
)

const (
	minFileSize            = 4 << 10
	minFileAge, maxFileAge = time.Second, 30 * 24 * time.Hour
	minKeep, maxKeep       = time.Minute, 100 * 365 * 24 * time.Hour
	minSync, maxSync       = time.Millisecond, time.Hour
)

// parseFiles reads the URL of a directory.
func parseFiles(raw string) (filesConfig, error) {
	c := filesConfig{
		maxSize: 64 << 20, maxAge: time.Hour, keep: 7 * 24 * time.Hour, keepSize: 10 << 30,
		sync: time.Second, compress: true,
	}
	place, s, err := parsePlace(raw, "file")
	if err != nil {
		return c, err
	}
	if c.dir = filepath.Clean(place.Path); place.Host != "" || place.User != nil || !filepath.IsAbs(c.dir) || c.dir == "/" {
		return c, errors.New("the URL names no directory; hint: file:///var/log/headgate/events, with three slashes")
	}
	s.size("max_size", &c.maxSize, minFileSize)
	s.duration("max_age", &c.maxAge, minFileAge, maxFileAge)
	s.duration("keep", &c.keep, minKeep, maxKeep)
	s.size("keep_size", &c.keepSize, minFileSize)
	compress := "gzip"
	s.choice("compress", &compress, "gzip", "none")
	c.compress = compress == "gzip"
	switch text, ok := s.read("fsync"); {
	case !ok:
	case text == "always":
		c.sync = syncAlways
	case text == "never":
		c.sync = syncNever
	default:
		s.parseDuration("fsync", text, &c.sync, minSync, maxSync)
	}
	return c, s.check()
}

// OpenFiles returns the sink of the directory that a URL names, as docs/audit.md has it:
//
//	file:///dir?max_size=64MiB&max_age=1h&keep=168h&keep_size=10GiB&fsync=1s&compress=gzip
//
// An error names what is wrong with the URL, or that the directory cannot be made or
// written now. When it cannot later, events wait, up to o.Buffer of them and 64 MiB, until
// it can.
func OpenFiles(url string, o SinkOptions) (Sink, error) {
	c, err := parseFiles(url)
	if err != nil {
		return nil, fmt.Errorf("events in files: %w", err)
	}
	if err := tryDirectory(c.dir); err != nil {
		return nil, fmt.Errorf("events in files: %w; hint: the directory must be writable for the user that Headgate runs as", err)
	}
	o.Buffer = cmp.Or(o.Buffer, defaultBuffer)
	s := &files{
		name: "file://" + filepath.ToSlash(c.dir), buffer: o.Buffer, writer: fileWriter{c: c, node: fileNode(o.Node), number: rand.Uint32() / 2},
		janitor: janitor{c: c, nudge: sleep.NewNudge()},
		wake:    sleep.NewNudge(),
	}
	s.writer.left = s.janitor.call
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	s.working.Go(func() { s.janitor.run(ctx) })
	s.working.Go(func() { s.run(ctx) })
	return s, nil
}

// tryDirectory makes a directory where there is none, and a file in it for a moment, which
// it locks as a file of events is.
func tryDirectory(dir string) error {
	if err := os.MkdirAll(dir, dirPerm); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".headgate-try-*")
	if err != nil {
		return err
	}
	_, err = filelock.Lock(f)
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// files is the Sink of a directory. What is written it leaves to the writer, and what is
// finished to the janitor.
type files struct {
	name    string
	buffer  int
	wake    sleep.Nudge
	end     context.CancelFunc // of working
	writer  fileWriter         // of run
	janitor janitor
	working sync.WaitGroup

	mu        sync.Mutex
	queue     []pending
	events    int // in queue
	bytes     int // of batches in queue
	written   uint64
	failed    uint64
	err       error
	abandoned bool // Close has counted what waited
}

// pending is a batch of which the events before next are done with.
type pending struct {
	Batch
	next int
}

// Name implements Sink.
func (s *files) Name() string { return s.name }

// Counts implements Sink.
func (s *files) Counts() (written, failed uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = s.err; err == nil {
		err = s.janitor.failure()
	}
	return s.written, s.failed, err
}

// Write implements Sink.
func (s *files) Write(b Batch) {
	s.mu.Lock()
	n := min(len(b.Events), s.buffer-s.events)
	for n > 0 && s.bytes+b.Events[n-1].End > maxWaitingBytes {
		n--
	}
	if s.abandoned {
		n = 0
	}
	s.failed += uint64(len(b.Events) - n)
	if n > 0 {
		b.Events = b.Events[:n]
		b.Lines = b.Lines[:b.Events[n-1].End]
		s.queue = append(s.queue, pending{Batch: b})
		s.events += n
		s.bytes += len(b.Lines)
	}
	s.mu.Unlock()
	s.wake.Give()
}

// first returns the batch to write next, nil for none.
func (s *files) first() *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	p := s.queue[0]
	return &p
}

// countWritten counts n events of the first batch as written.
func (s *files) countWritten(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.abandoned {
		return
	}
	s.written += uint64(n)
	s.events -= n
	if p := &s.queue[0]; p.next+n < len(p.Events) {
		p.next += n
		return
	}
	s.bytes -= len(s.queue[0].Lines)
	s.queue[0] = pending{}
	if s.queue = s.queue[1:]; len(s.queue) == 0 {
		s.queue = nil // of which the head is used up
	}
}

// run writes what waits until ctx ends, and then once more.
func (s *files) run(ctx context.Context) {
	timer := time.NewTimer(retryEvery)
	defer timer.Stop()
	for closing := false; !closing; {
		select {
		case <-s.wake:
		case <-timer.C:
		case <-ctx.Done():
			closing = true
		}
		now := time.Now()
		if !closing && now.Before(s.writer.retryAt) {
			continue // the timer ends then
		}
		err := s.flush(now)
		if err == nil {
			err = s.writer.maintain(now)
		}
		s.writer.retryAt = time.Time{}
		if err != nil {
			s.writer.retryAt = now.Add(retryEvery)
		}
		s.mu.Lock()
		if s.err != nil && err == nil {
			s.janitor.call() // what was wrong for it may be right again too
		}
		s.err = err
		s.mu.Unlock()
		timer.Reset(s.writer.wait(now))
	}
	s.writer.finish()
}

// flush writes all that waits. Of an error the rest waits on.
func (s *files) flush(now time.Time) error {
	for {
		p := s.first()
		if p == nil {
			return nil
		}
		n, err := s.writer.write(p, now)
		s.countWritten(n)
		if err != nil {
			return err
		}
	}
}

// Close implements Sink.
func (s *files) Close(ctx context.Context) error {
	s.end()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.working.Wait()
		s.janitor.tidy(ctx, time.Now())
	}()
	select {
	case <-done:
	case <-ctx.Done(): // the disk hangs
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.events
	s.abandoned, s.events, s.bytes, s.queue = true, 0, 0, nil
	s.failed += uint64(lost)
	if lost > 0 {
		return fmt.Errorf("audit: %d events were not written to %s: %w", lost, s.name, cmp.Or(s.err, ctx.Err()))
	}
	return nil
}
