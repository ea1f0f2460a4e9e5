package chainfile

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/internal/signing"
	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// Head says what the last change of a log was at some time. Its hash is that of all up to
// it, so that no other log has it.
type Head struct {
	// Version is that of the last change; 0 of a log without any.
	Version int64 `json:"version"`
	// Hash is that of the last change, "" without any.
	Hash string `json:"hash"`
	// At is when that was said, in microseconds since 1970.
	At int64 `json:"at_us"`
	// Signature is of all the above, in base64; "" of a head that nobody has signed.
	Signature string `json:"signature,omitempty"`
}

// NewHead returns the head of a log that ends at end, signed if signer is not nil.
func NewHead(end sqltenant.Point, at time.Time, signer *signing.Signer) Head {
	h := Head{Version: end.Version, Hash: end.Digest, At: at.UnixMicro()}
	if signer != nil {
		h.Signature = signer.Sign(h.text())
	}
	return h
}

// text is what is signed.
func (h *Head) text() []byte {
	return fmt.Appendf(nil, "headgate head 1\n%d\n%s\n%d\n", h.Version, h.Hash, h.At)
}

// Line returns h as a line of JSON, with its end.
func (h *Head) Line() ([]byte, error) {
	text, err := json.Marshal(line{Head: h})
	return append(text, '\n'), err
}

// signed refuses a head that none of the keys has signed. Without keys all are good.
func (h *Head) signed(keys *signing.Verifier) error {
	switch {
	case keys == nil || keys.Signed(h.text(), h.Signature):
		return nil
	case h.Signature == "":
		return fmt.Errorf("%w: the head at version %d is not signed", ErrNotWhole, h.Version)
	default:
		return fmt.Errorf("%w: the head at version %d is signed by nobody who is believed, or was altered", ErrNotWhole, h.Version)
	}
}

// maxHeads bounds the heads that a log is held against, for versions that differ: one an
// hour for a hundred years, in 150 MB.
const maxHeads = 1 << 20

// Heads are what a log was held to be. The zero value has none, and is ready for use.
type Heads struct {
	hashes map[int64]string
	// last is the largest version of one.
	last int64
}

// ReadHeads reads lines of heads, which keys must have signed unless it is nil. Blank
// lines are passed over. The error names the line.
func ReadHeads(r io.Reader, keys *signing.Verifier) (*Heads, error) {
	all := &Heads{hashes: map[int64]string{}}
	lines := bufio.NewScanner(r)
	number := 1
	for ; lines.Scan(); number++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var l line
		if err := strictjson.Decode(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if l.Head == nil {
			return nil, fmt.Errorf("line %d: no head; hint: `headgate quota log --head` writes them", number)
		}
		err := l.alone()
		if err == nil {
			err = all.add(l.Head, keys)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	return all, unread(lines.Err(), number, bufio.MaxScanTokenSize)
}

// add adds one, and refuses a second one of a version that has another hash.
func (a *Heads) add(h *Head, keys *signing.Verifier) error {
	if err := h.signed(keys); err != nil {
		return err
	}
	before, ok := a.hashes[h.Version]
	switch {
	case h.Version < 0 || h.Version == 0 && h.Hash != "":
		return fmt.Errorf("%w: a head at version %d, which no log has", ErrNotWhole, h.Version)
	case ok && before != h.Hash:
		return fmt.Errorf("%w: two heads at version %d are of different logs", ErrNotWhole, h.Version)
	case !ok && len(a.hashes) == maxHeads:
		return fmt.Errorf("more than %d heads; hint: leave old ones out, a later one is of all changes before it", maxHeads)
	}
	a.hashes[h.Version], a.last = h.Hash, max(a.last, h.Version)
	return nil
}

// Len returns how many versions have a head.
func (a *Heads) Len() int { return len(a.hashes) }

// Take holds e, a change of the log, against the head of its version, if there is one.
func (a *Heads) Take(e *sqltenant.Entry) error {
	if hash, ok := a.hashes[e.Version]; ok && hash != e.Hash {
		return fmt.Errorf("%w: the head at version %d is of another log: that change or one before it was altered, put in or taken out after the head was made", ErrNotWhole, e.Version)
	}
	return nil
}

// End says that the log ends at end: no head may be of a later change.
func (a *Heads) End(end sqltenant.Point) error {
	if a.last > end.Version {
		return fmt.Errorf("%w: there is a head at version %d, and the log ends at version %d: changes were taken out, or a backup was restored", ErrNotWhole, a.last, end.Version)
	}
	return nil
}
