package chainfile

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/internal/signing"
	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// ErrNotWhole is wrapped by errors that say that a log is not as it was made.
var ErrNotWhole = errors.New("the log of changes is not as it was made")

// maxLine bounds one line: two documents of the largest size, each of whose bytes is
// escaped twice.
const maxLine = 32 << 20

// line is one line of an export: a head, or else a change. Texts are text here too, for
// their bytes are what was hashed.
type line struct {
	Head *Head `json:"head,omitempty"`

	Version    int64  `json:"version,omitempty"`
	At         int64  `json:"at_us,omitempty"`
	Actor      string `json:"actor,omitempty"`
	Kind       string `json:"kind,omitempty"`
	SubjectKey string `json:"subject_key,omitempty"`
	Subject    string `json:"subject,omitempty"`
	Before     string `json:"before,omitempty"`
	After      string `json:"after,omitempty"`
	Hash       string `json:"hash,omitempty"`
}

func lineOf(e *sqltenant.Entry) line {
	l := line{
		Version: e.Version, Actor: e.Actor, Kind: string(e.Kind), SubjectKey: e.Subject.Key, Subject: e.Subject.Value,
		Before: e.Before, After: e.After, Hash: e.Hash,
	}
	if !e.At.IsZero() {
		l.At = e.At.UnixMicro()
	}
	return l
}

// alone refuses a head that has members of a change beside it: nothing is signed of them, and nobody reads them.
func (l *line) alone() error {
	if *l != (line{Head: l.Head}) {
		return fmt.Errorf("%w: members of a change stand beside the head at version %d", ErrNotWhole, l.Head.Version)
	}
	return nil
}

func (l *line) entry() sqltenant.Entry {
	e := sqltenant.Entry{
		Version: l.Version, Actor: l.Actor, Kind: sqltenant.Kind(l.Kind), Subject: tenant.Subject{Key: l.SubjectKey, Value: l.Subject},
		Before: l.Before, After: l.After, Hash: l.Hash,
	}
	if l.At != 0 {
		e.At = time.UnixMicro(l.At).UTC()
	}
	return e
}

// Writer writes an export. Make one with NewWriter.
type Writer struct{ out *bufio.Writer }

// NewWriter returns a Writer to w. All is there when End has returned.
func NewWriter(w io.Writer) *Writer { return &Writer{bufio.NewWriter(w)} }

// Add writes the change that comes next.
func (w *Writer) Add(e *sqltenant.Entry) error {
	text, err := json.Marshal(lineOf(e))
	if err != nil {
		return err
	}
	_, err = w.out.Write(append(text, '\n'))
	return err
}

// End writes the head, which ends the export.
func (w *Writer) End(h Head) error {
	text, err := h.Line()
	if err != nil {
		return err
	}
	if _, err := w.out.Write(text); err != nil {
		return err
	}
	return w.out.Flush()
}

// Read reads an export, and hands over each change that follows whole from the one before
// it. It returns the head at its end, which keys must have signed unless it is nil. The
// error wraps ErrNotWhole, or is a *sqltenant.BrokenError, where the export is not what
// Writer has written; it ends with the first error of each, too.
func Read(r io.Reader, keys *signing.Verifier, each func(*sqltenant.Entry) error) (Head, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var chain sqltenant.Chain
	number := 1
	for ; lines.Scan(); number++ {
		var l line
		if err := strictjson.Decode(lines.Bytes(), &l); err != nil {
			return Head{}, fmt.Errorf("%w: line %d: %w", ErrNotWhole, number, err)
		}
		if l.Head != nil {
			err := l.alone()
			if err == nil {
				err = ended(l.Head, lines, chain.End(), keys)
			}
			if err != nil {
				err = fmt.Errorf("line %d: %w", number, err)
			}
			return *l.Head, err
		}
		e := l.entry()
		if err := chain.Take(&e); err != nil {
			return Head{}, fmt.Errorf("line %d: %w", number, err)
		}
		if err := each(&e); err != nil {
			return Head{}, err
		}
	}
	if err := unread(lines.Err(), number, maxLine); err != nil {
		return Head{}, err
	}
	return Head{}, fmt.Errorf("%w: it ends after version %d, without a head: the rest was cut off", ErrNotWhole, chain.End().Version)
}

// unread is why lines were not read on, nil at their end; of one that is longer than most bytes
// it says which.
func unread(err error, number, most int) error {
	if errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("line %d: longer than %d KiB; hint: is this a file that `headgate quota log` has written?", number, most>>10)
	}
	return err
}

// ended looks at the head of an export whose changes end at end.
func ended(h *Head, lines *bufio.Scanner, end sqltenant.Point, keys *signing.Verifier) error {
	if h.Version != end.Version || h.Hash != end.Digest {
		return fmt.Errorf("%w: its head is at version %d, and it ends at version %d or in another way", ErrNotWhole, h.Version, end.Version)
	}
	if lines.Scan() {
		return fmt.Errorf("%w: something stands behind its head", ErrNotWhole)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return h.signed(keys)
}
