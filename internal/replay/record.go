package replay

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
)

// Record is a recorded request.
type Record struct {
	// At is when it was decided, as exactly as the source says.
	At limit.Micros
	// Domain and Descriptors are what it was limited on. What callers named limits for themselves
	// is not among them, because rules do not count there.
	Domain      string
	Descriptors []headgate.Descriptor
	// Allowed is what was answered, and Rule what decided that, where the source says it.
	Allowed bool
	Rule    string
	// ID tells a record from others, 0 where the source has no names for them.
	ID uint64
	// SampleRate is how many requests it stands for; 0 and 1 are itself alone.
	SampleRate float64
	// Lacks are what the source does not say of it.
	Lacks Lack

	order int64 // among equals of one source
	// entries have room for those of Descriptors.
	entries []descriptor.Entry
}

// parse is descriptor.Parse. Where nothing is escaped, which is the rule, the entries are in the memory
// of r and are parts of text.
func (r *Record) parse(text string) ([]descriptor.Entry, error) {
	if strings.IndexByte(text, '\\') >= 0 || text == "" {
		return descriptor.Parse(text)
	}
	from := len(r.entries)
	for rest, more := text, true; more; {
		var entry string
		entry, rest, more = strings.Cut(rest, ",")
		key, value, ok := strings.Cut(entry, ":")
		if !ok || key == "" {
			r.entries = r.entries[:from]
			return descriptor.Parse(text) // it says what is wrong
		}
		r.entries = append(r.entries, descriptor.Entry{Key: key, Value: value})
	}
	return r.entries[from:len(r.entries):len(r.entries)], nil
}

// Lack says what is not known of a record, so that rules cannot be asked about it as they were.
type Lack uint8

const (
	// Sampled: it stands for others that were not recorded.
	Sampled Lack = 1 << iota
	// OneKey: of its descriptors only the key of one limit was recorded.
	OneKey
	// Cut: not all of its descriptors were recorded.
	Cut
	// Hashed: its values are hashes, of which only those of rules may be known.
	Hashed

	numLacks = 4
	// hashedLack is the number of Hashed among them.
	hashedLack = 3
)

// reset makes r empty, and keeps its memory.
func (r *Record) reset() { *r = Record{Descriptors: r.Descriptors[:0], entries: r.entries[:0]} }

// add adds a descriptor of entries that r may keep.
func (r *Record) add(entries []descriptor.Entry, hits int64) {
	r.Descriptors = append(r.Descriptors, headgate.Descriptor{Entries: entries, Hits: hits})
}

// Decoder reads a line into a record that was reset. It keeps no part of line. The error is
// ErrSkip for a line that is in order and about no request that could be asked again.
type Decoder func(line []byte, into *Record) error

// ErrSkip is for lines that are in order and about nothing that rules decide.
var ErrSkip = errors.New("nothing to decide")

// errNobody is for requests of which nothing is known that they could be limited on.
var errNobody = fmt.Errorf("%w: nobody can tell who asks", ErrSkip)

// errRefused is for requests that the identity file refuses, so that no rule is asked.
var errRefused = fmt.Errorf("%w: the credential is refused", ErrSkip)

// errHeader is for the line that names the columns of others: it is counted as none.
var errHeader = errors.New("the names of columns")
