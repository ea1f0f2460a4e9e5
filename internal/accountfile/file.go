package accountfile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/regular"
	"github.com/headgate/headgate/tenant"
)

// File is a file of accounts that is open. It is immutable and safe for concurrent use,
// and stays readable when its name is taken away. Make one with Open; nobody need close it.
type File struct {
	Head
	path  string
	file  *os.File
	index []uint64
	words []word

	// sharing lets accounts that are read have equal quotas in common.
	sharing sync.Mutex
	shared  tenant.Sharer
}

// word is a text of the dictionary. It is read once.
type word struct {
	text    []byte
	account atomic.Pointer[tenant.Account] // without its subject
}

var _ tenant.Base = (*File)(nil)

// Open opens a file. One that is not whole is refused, as far as that is seen without
// reading all of it: a damaged block is found when it is read.
func Open(path string) (*File, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open accounts: %w", err)
	}
	opened := &File{path: path, file: f}
	if err := opened.readHead(); err != nil {
		f.Close()
		return nil, fmt.Errorf("open accounts: %s: %w", path, err)
	}
	return opened, nil
}

// Path returns the name under which f was opened.
func (f *File) Path() string { return f.path }

// Len implements tenant.Base.
func (f *File) Len() int { return f.Accounts }

// Parts implements tenant.Base.
func (f *File) Parts() int { return f.Head.Parts }

// ReadAt implements io.ReaderAt: it reads the file as it is.
func (f *File) ReadAt(b []byte, at int64) (int, error) { return f.file.ReadAt(b, at) }

// Close closes f. No Find may follow.
func (f *File) Close() error { return f.file.Close() }

func (f *File) readHead() error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	var tail [tailSize]byte
	if size < int64(len(magic)+tailSize) {
		return fmt.Errorf("%w: %d bytes", errFormat, size)
	}
	if _, err := f.file.ReadAt(tail[:], size-int64(tailSize)); err != nil {
		return err
	}
	length := int(binary.BigEndian.Uint32(tail[:]))
	if string(tail[8:]) != magic || length > maxHead || int64(length+tailSize+len(magic)) > size {
		return fmt.Errorf("%w: its end is missing", errFormat)
	}
	head := make([]byte, length)
	if _, err := f.file.ReadAt(head, size-int64(tailSize+length)); err != nil {
		return err
	}
	if crc32.Checksum(head, table) != binary.BigEndian.Uint32(tail[4:]) {
		return fmt.Errorf("%w: its head is damaged", errFormat)
	}
	if err := json.Unmarshal(head, &f.Head); err != nil {
		return fmt.Errorf("%w: its head: %w", errFormat, err)
	}
	if err := f.check(size, length); err != nil {
		return err
	}
	return f.readIndex()
}

// readIndex reads dictionary and index.
func (f *File) readIndex() error {
	data := make([]byte, f.Dictionary+8*f.Blocks)
	if _, err := f.file.ReadAt(data, f.dictionaryAt()); err != nil {
		return err
	}
	if crc32.Checksum(data, table) != f.Checksum {
		return fmt.Errorf("%w: its index is damaged", errFormat)
	}
	words := data[:f.Dictionary]
	f.words = make([]word, f.Words)
	for i := range f.words {
		length, n := binary.Uvarint(words)
		if n <= 0 || length > maxWord || int(length) > len(words)-n {
			return fmt.Errorf("%w: its dictionary is not whole", errFormat)
		}
		f.words[i].text = bytes.Clone(words[n : n+int(length)])
		words = words[n+int(length):]
	}
	f.index = make([]uint64, f.Blocks)
	for i := range f.index {
		f.index[i] = binary.BigEndian.Uint64(data[f.Dictionary+8*i:])
	}
	return nil
}

// blocks are rooms for blocks that are read.
var blocks = sync.Pool{New: func() any { return new([blockSize]byte) }}

// Find implements tenant.Base: it reads one block, two where the hash is at the edge of
// them.
func (f *File) Find(subject tenant.Subject) (tenant.Account, bool, error) {
	h := hashOf(subject)
	want := h.prefix()
	// The last block that begins before h, and those that begin as it does.
	at := sort.Search(len(f.index), func(i int) bool { return f.index[i] >= want })
	if at > 0 {
		at--
	}
	room := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(room)
	for ; at < len(f.index) && f.index[at] <= want; at++ {
		if _, err := f.file.ReadAt(room[:], int64(len(magic))+int64(at)*blockSize); err != nil {
			return tenant.Account{}, false, fmt.Errorf("read accounts: %w", err)
		}
		r, found, err := search(room[:], &h)
		if err != nil {
			return tenant.Account{}, false, fmt.Errorf("read accounts: %s: %w", f.path, err)
		}
		if found {
			return f.account(subject, &r)
		}
	}
	return tenant.Account{}, false, nil
}

// search finds a hash in a sealed block.
func search(block []byte, h *hash) (r record, found bool, err error) {
	data, n, err := open(block)
	for ; err == nil && n > 0; n-- {
		if r, data, err = readRecord(data); err == nil && r.hash == *h {
			return r, true, nil
		}
	}
	return record{}, false, err
}

// account reads the account of a record.
func (f *File) account(subject tenant.Subject, r *record) (tenant.Account, bool, error) {
	var known *atomic.Pointer[tenant.Account]
	if r.where == inDictionary && r.word < len(f.words) {
		known = &f.words[r.word].account
		if a := known.Load(); a != nil {
			one := *a
			one.Subject = subject
			return one, true, nil
		}
	}
	text, err := f.text(r)
	var a tenant.Account
	if err == nil {
		a, err = quotas.DecodeAccount(subject, text)
	}
	if err != nil {
		return tenant.Account{}, false, fmt.Errorf("read accounts: %s: %w", f.path, err)
	}
	f.sharing.Lock()
	defer f.sharing.Unlock()
	f.shared.Share(&a)
	if known != nil {
		known.Store(&a)
	}
	return a, true, nil
}

// text returns the text of a record, valid as long as its block.
func (f *File) text(r *record) ([]byte, error) {
	switch {
	case r.where == inRecord:
		return r.text, nil
	case r.where == inDictionary && r.word < len(f.words):
		return f.words[r.word].text, nil
	case r.where == inDictionary || r.offset+int64(r.length) > int64(f.Large):
		return nil, fmt.Errorf("%w: a record leads nowhere", errFormat)
	}
	text := make([]byte, r.length)
	if _, err := f.file.ReadAt(text, f.largeAt()+r.offset); err != nil {
		return nil, err
	}
	if crc32.Checksum(text, table) != r.sum {
		return nil, fmt.Errorf("%w: an account is damaged", errFormat)
	}
	return text, nil
}

// each hands over all records in order, with their texts, which are valid during the call.
func (f *File) each(take func(hash, []byte) error) error {
	const many = 64
	room := make([]byte, many*blockSize)
	for at := 0; at < f.Blocks; at += many {
		part := room[:min(many, f.Blocks-at)*blockSize]
		if _, err := f.file.ReadAt(part, int64(len(magic))+int64(at)*blockSize); err != nil {
			return fmt.Errorf("read accounts: %w", err)
		}
		for ; len(part) > 0; part = part[blockSize:] {
			data, n, err := open(part[:blockSize])
			for ; err == nil && n > 0; n-- {
				var r record
				if r, data, err = readRecord(data); err != nil {
					break
				}
				var text []byte
				if text, err = f.text(&r); err == nil {
					err = take(r.hash, text)
				}
			}
			if err != nil {
				return fmt.Errorf("read accounts: %s: %w", f.path, err)
			}
		}
	}
	return nil
}
