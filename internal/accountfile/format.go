// Package accountfile keeps the accounts of a snapshot in a file on the local disk, with
// only an index and the accounts that were asked for recently in memory.
//
// A file is written once and never changed. It has, one after the other:
//
//	magic       8 bytes
//	blocks      of 4096 bytes: the accounts, in the order of the hashes of their subjects
//	large       texts of accounts that are too long for a block
//	dictionary  texts that many accounts have
//	index       8 bytes for each block: how its first hash begins
//	head        JSON: what the file is of, and where its parts are
//	tail        16 bytes: the length and the checksum of the head, the magic
//
// A block begins with its checksum and the number of its records. A record is the hash of
// a subject (16 bytes) and where its text is: in the dictionary, in the record or among
// the large ones. Names of subjects are not in the file.
package accountfile

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

const (
	magic     = "HGACCTS1"
	blockSize = 4096
	// blockHead is the checksum (4 bytes) and the number of records (2 bytes).
	blockHead = 6
	hashSize  = 16
	tailSize  = 4 + 4 + len(magic)
	// maxInline bounds a text in a block, in bytes, and maxText any.
	maxInline, maxText = 1024, 64 << 20
	// maxDictionary bounds the texts of the dictionary, and maxWord one of them in bytes:
	// 16 MiB of memory at most.
	maxDictionary, maxWord = 1 << 16, 256
	// maxHead bounds the head, in bytes, and maxBlocks the blocks: of two thousand million
	// accounts.
	maxHead, maxBlocks = 64 << 10, 1 << 23
)

// errFormat is wrapped by what says that a file is none of accounts, or not whole.
var errFormat = errors.New("not a whole file of accounts")

// errRecord says that a record is none.
var errRecord = fmt.Errorf("%w: a record that cannot be", errFormat)

// table is CRC-32C, which processors compute.
var table = crc32.MakeTable(crc32.Castagnoli)

// hash is what a subject is found by. That two subjects have one takes 2^64 of them.
type hash [hashSize]byte

func hashOf(s tenant.Subject) hash {
	var room [512]byte
	text := binary.AppendUvarint(room[:0], uint64(len(s.Key)))
	text = append(append(text, s.Key...), s.Value...)
	sum := sha256.Sum256(text)
	return hash(sum[:hashSize])
}

// prefix is how h begins, as the index has it.
func (h *hash) prefix() uint64 { return binary.BigEndian.Uint64(h[:8]) }

// Head is what a file is of.
type Head struct {
	// Point is up to where the history of the database is in the file, at least.
	Point sqltenant.Point `json:"point"`
	// Accounts and Parts are those of all accounts; see tenant.Snapshot.
	Accounts int `json:"accounts"`
	Parts    int `json:"parts"`

	Blocks     int `json:"blocks"`
	Large      int `json:"large"` // bytes
	Words      int `json:"words"`
	Dictionary int `json:"dictionary"` // bytes
	// Checksum is that of dictionary and index.
	Checksum uint32 `json:"checksum"`
}

// check refuses what no file of a size has.
func (h *Head) check(size int64, headSize int) error {
	if h.Accounts < 0 || h.Parts < 0 || h.Blocks < 0 || h.Blocks > maxBlocks || h.Large < 0 || h.Words < 0 || h.Words > maxDictionary ||
		h.Dictionary < 0 || h.Dictionary > maxDictionary*(maxWord+2) || h.Point.Version < 0 {
		return fmt.Errorf("%w: its head says what cannot be", errFormat)
	}
	want := int64(len(magic)) + int64(h.Blocks)*(blockSize+8) + int64(h.Large) + int64(h.Dictionary) + int64(headSize) + int64(tailSize)
	if want != size {
		return fmt.Errorf("%w: %d bytes, its head says %d", errFormat, size, want)
	}
	return nil
}

// blocksAt, largeAt and dictionaryAt are where the parts begin.
func (h *Head) largeAt() int64      { return int64(len(magic)) + int64(h.Blocks)*blockSize }
func (h *Head) dictionaryAt() int64 { return h.largeAt() + int64(h.Large) }

// Where the text of a record is, in the two low bits of the number after its hash.
const (
	inDictionary = 0 // the rest is the number of the word
	inRecord     = 1 // the rest is the length; the text follows
	amongLarge   = 2 // the rest is the length; its place among the large ones and its checksum follow
)

// record is one of a block.
type record struct {
	hash   hash
	where  uint64
	word   int
	text   []byte // in the record
	length int
	offset int64 // among the large ones
	sum    uint32
}

// append writes r.
func (r *record) append(dst []byte) []byte {
	dst = append(dst, r.hash[:]...)
	switch r.where {
	case inDictionary:
		return binary.AppendUvarint(dst, uint64(r.word)<<2|inDictionary)
	case inRecord:
		return append(binary.AppendUvarint(dst, uint64(len(r.text))<<2|inRecord), r.text...)
	}
	dst = binary.AppendUvarint(dst, uint64(r.length)<<2|amongLarge)
	dst = binary.AppendUvarint(dst, uint64(r.offset))
	return binary.BigEndian.AppendUint32(dst, r.sum)
}

// readRecord reads the first record of data, and returns what follows it.
func readRecord(data []byte) (r record, rest []byte, err error) {
	if len(data) < hashSize+1 {
		return r, nil, errRecord
	}
	r.hash, data = hash(data[:hashSize]), data[hashSize:]
	number, n := binary.Uvarint(data)
	if n <= 0 || number>>2 > maxText {
		return r, nil, errRecord
	}
	data, r.where = data[n:], number&3
	size := int(number >> 2)
	switch r.where {
	case inDictionary:
		r.word = size
		return r, data, nil
	case inRecord:
		if size > len(data) {
			return r, nil, errRecord
		}
		r.text = data[:size]
		return r, data[size:], nil
	case amongLarge:
		offset, n := binary.Uvarint(data)
		if n <= 0 || offset > 1<<50 || len(data) < n+4 {
			return r, nil, errRecord
		}
		r.length, r.offset, r.sum = size, int64(offset), binary.BigEndian.Uint32(data[n:])
		return r, data[n+4:], nil
	}
	return r, nil, errRecord
}

// seal puts checksum and number before the records of a block and fills it up.
func seal(block []byte, records int) []byte {
	full := append(block, make([]byte, blockSize-len(block))...)
	binary.BigEndian.PutUint16(full[4:], uint16(records))
	binary.BigEndian.PutUint32(full, crc32.Checksum(full[4:], table))
	return full
}

// open returns the records of a sealed block as bytes, and how many there are.
func open(block []byte) (records []byte, n int, err error) {
	if len(block) != blockSize || binary.BigEndian.Uint32(block) != crc32.Checksum(block[4:], table) {
		return nil, 0, fmt.Errorf("%w: a block is damaged", errFormat)
	}
	return block[blockHead:], int(binary.BigEndian.Uint16(block[4:])), nil
}
