package replay

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/internal/heap"
	"github.com/headgate/headgate/limit"
)

// Input is a file of one format, or whatever else has lines.
type Input struct {
	// Name is that of messages.
	Name string
	// Open opens it, also more than once where Again is set.
	Open func() (io.ReadCloser, error)
	// Again says that it can be opened more than once. Such inputs are only open while it is
	// their time, so that there may be many.
	Again bool
	// Decoder returns what reads the lines from the first one on.
	Decoder func() (Decoder, error)
}

// maxHeld bounds the records of all inputs that wait for older ones: some 50 MiB. Beyond it each
// input has one.
const maxHeld = 100_000

// maxTroubles bounds the bad lines that are told one by one.
const maxTroubles = 10

// Trouble is a line that could not be read.
type Trouble struct {
	Input string `json:"input"`
	Line  int    `json:"line"`
	Error string `json:"error"`
}

// Reading is what became of lines.
type Reading struct {
	// Lines is how many there were, Bad how many could not be read: the first of them are
	// Troubles.
	Lines    int64     `json:"lines"`
	Bad      int64     `json:"bad"`
	Troubles []Trouble `json:"troubles,omitempty"`
	// Skipped are lines that are in order and about no request: of them nobody could tell who
	// asked for Nobody, and Refused had a credential that is refused.
	Skipped int64 `json:"skipped"`
	Nobody  int64 `json:"nobody"`
	Refused int64 `json:"refused"`
	// Twice are records that were there before.
	Twice int64 `json:"twice"`
	// Late are records that came when later ones had been decided already: they were decided at
	// the time of those.
	Late int64 `json:"late"`
}

// note counts a line that gave no record.
func (n *Reading) note(input string, line int, err error) {
	switch {
	case errors.Is(err, errNobody):
		n.Nobody++
		n.Skipped++
	case errors.Is(err, errRefused):
		n.Refused++
		n.Skipped++
	case errors.Is(err, ErrSkip):
		n.Skipped++
	default:
		n.Bad++
		if len(n.Troubles) < maxTroubles {
			n.Troubles = append(n.Troubles, Trouble{input, line, err.Error()})
		}
	}
}

// stream is the records of one input in the order of their times, as far as they are not further
// out of order than window.
type stream struct {
	input   Input
	index   int
	window  limit.Micros
	reading *Reading
	lacks   *[numLacks]int64
	free    *pool
	waiting *int // the records that are held, of all inputs

	lines  *lines // nil before it is opened
	decode Decoder
	ended  bool
	newest limit.Micros
	count  int64
	held   heap.Queue[*Record] // the oldest in front
	// head is the time of the next record; of a stream that is not open, a time that it is not
	// before.
	head limit.Micros
}

// pool are records that are used again.
type pool []*Record

func (p *pool) get() *Record {
	if n := len(*p); n > 0 {
		r := (*p)[n-1]
		*p = (*p)[:n-1]
		r.reset()
		return r
	}
	return new(Record)
}

func (p *pool) put(r *Record) { *p = append(*p, r) }

// open begins to read.
func (s *stream) open() error {
	file, err := s.input.Open()
	if err != nil {
		return err
	}
	if s.lines, err = newLines(file); err != nil {
		file.Close()
		return s.wrap(err)
	}
	if s.decode, err = s.input.Decoder(); err != nil {
		return s.wrap(err)
	}
	return nil
}

func (s *stream) wrap(err error) error { return fmt.Errorf("read %s: %w", s.input.Name, err) }

// peek opens the input, finds the first time in it and closes it. Where nothing is found among
// the first lines it is as if it began at once.
func (s *stream) peek() error {
	const first = 1000
	if err := s.open(); err != nil {
		return err
	}
	defer func() { s.lines = nil }()
	defer s.lines.close()
	for range first {
		line, err := s.lines.next()
		if errors.Is(err, errLongLine) {
			continue
		} else if err != nil {
			return nil // it is told when it is read
		}
		r := s.free.get()
		err = s.decode(line, r)
		at := r.At
		s.free.put(r)
		if _, ok := errors.AsType[*FormatError](err); ok {
			return s.wrap(err)
		}
		if err == nil {
			s.head = at - s.window
			return nil
		}
	}
	return nil
}

// fill reads until the next record is known; ok is false at the end.
func (s *stream) fill() (ok bool, err error) {
	if s.lines == nil {
		if err := s.open(); err != nil {
			return false, err
		}
	}
	for !s.ended && (s.held.Len() == 0 || s.newest-s.held.First().At < s.window && *s.waiting < maxHeld) {
		if err := s.read(); err != nil {
			return false, err
		}
	}
	if s.held.Len() == 0 {
		return false, nil
	}
	s.head = s.held.First().At
	return true, nil
}

// read reads a line.
func (s *stream) read() error {
	line, err := s.lines.next()
	switch {
	case errors.Is(err, errLongLine):
		s.reading.Lines++
		s.reading.note(s.input.Name, s.lines.number, err)
		return nil
	case errors.Is(err, io.EOF):
		s.ended = true
		return s.lines.close()
	case err != nil:
		return s.wrap(err)
	case len(line) == 0:
		return nil
	}
	s.reading.Lines++
	r := s.free.get()
	err = s.decode(line, r)
	for i := range s.lacks {
		if r.Lacks&(1<<i) != 0 {
			s.lacks[i]++
		}
	}
	if err == nil && (r.At < 0 || r.At > maxMillis*1000) {
		err = fmt.Errorf("the time is before 1970 or after 2111")
	}
	if err != nil {
		s.free.put(r)
		if errors.Is(err, errHeader) { // no line of what was recorded
			s.reading.Lines--
			return nil
		}
		if _, ok := errors.AsType[*FormatError](err); ok {
			return s.wrap(err)
		}
		s.reading.note(s.input.Name, s.lines.number, err)
		return nil
	}
	s.count++
	r.order = s.count
	s.newest = max(s.newest, r.At)
	s.held.Push(r)
	*s.waiting++
	return nil
}

// take returns the oldest record that is held.
func (s *stream) take() *Record {
	*s.waiting--
	return s.held.Pop()
}

// DefaultWindow is by how much lines may be out of order where nothing else is said: Envoy logs
// a request with the time of its beginning when it ends.
const DefaultWindow = 10 * time.Second

// MaxWindow bounds Options.Window: so long is what passes in it held in memory, as far as
// maxHeld.
const MaxWindow = time.Hour
