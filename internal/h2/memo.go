package h2

// memoSize is how many blocks a connection remembers, and memoBlock how long they may be.
const (
	memoSize  = 8
	memoBlock = 48
)

// memo remembers what blocks of indexed fields alone were decoded to. Such a block does not
// change the table of the decoder, and clients that send the same fields again and again
// send it as the same few bytes. All is forgotten when the table changes.
type memo struct {
	entries [memoSize]memoEntry
	used    int
	next    int
}

type memoEntry struct {
	bytes  [memoBlock]byte
	length uint8
	block  *block
}

// isIndexed reports whether a block has indexed fields alone, each in one byte
// (RFC 7541, section 6.1).
func isIndexed(fragment []byte) bool {
	if len(fragment) == 0 || len(fragment) > memoBlock {
		return false
	}
	for _, b := range fragment {
		if b <= 0x80 || b == 0xff {
			return false
		}
	}
	return true
}

// find returns the block that those bytes were decoded to, nil if it is not known.
func (m *memo) find(fragment []byte) *block {
	for i := range m.entries[:m.used] {
		e := &m.entries[i]
		if string(e.bytes[:e.length]) == string(fragment) {
			return e.block
		}
	}
	return nil
}

// keep remembers a block in place of the one that is remembered longest. The one that is
// forgotten may still be in use, and so is left to the garbage collector.
func (m *memo) keep(fragment []byte, b *block) {
	b.kept = true
	e := &m.entries[m.next]
	e.length = uint8(copy(e.bytes[:], fragment))
	e.block = b
	m.next = (m.next + 1) % memoSize
	m.used = min(m.used+1, memoSize)
}

// forget forgets all: the table has changed.
func (m *memo) forget() {
	if m.used > 0 {
		*m = memo{}
	}
}
