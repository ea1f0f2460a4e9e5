package accountfile

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// Write writes a file of accounts, which come in any order and each once, and opens it.
// Its memory does not grow with their number: they are sorted by way of another file
// beside it. Accounts without anything are left out. An error among them is returned, and
// nothing is written: what came before it are not all of them. After a crash at any point the file
// at path is the one that was there or the new one, whole.
func Write(path string, at sqltenant.Point, accounts iter.Seq2[tenant.Account, error]) (*File, error) {
	sorted, err := newSpill(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("write accounts: %w", err)
	}
	defer sorted.remove()
	for a, err := range accounts {
		if err != nil {
			return nil, err
		}
		parts := len(a.Tiers) + len(a.Overrides) + len(a.TopUps)
		if parts == 0 {
			continue
		}
		text, err := quotas.EncodeAccount(&a)
		if err == nil {
			err = sorted.add(hashOf(a.Subject), parts, text)
		}
		if err != nil {
			return nil, fmt.Errorf("write accounts: %s:%s: %w", a.Subject.Key, a.Subject.Value, err)
		}
	}
	return write(path, Head{Point: at}, sorted.each)
}

// Merge writes a file of the accounts of a snapshot over a File, which is what was changed
// since that was written and the rest of it.
func Merge(path string, at sqltenant.Point, s *tenant.Snapshot) (*File, error) {
	base, ok := s.Base().(*File)
	if !ok {
		return nil, errors.New("merge accounts: the snapshot is over no file")
	}
	type change struct {
		hash hash
		text []byte // nil: gone
	}
	changes := make([]change, 0, s.Changes())
	for a := range s.Changed() {
		c := change{hash: hashOf(a.Subject)}
		if len(a.Tiers)+len(a.Overrides)+len(a.TopUps) > 0 {
			var err error
			if c.text, err = quotas.EncodeAccount(&a); err != nil {
				return nil, fmt.Errorf("merge accounts: %w", err)
			}
		}
		changes = append(changes, c)
	}
	slices.SortFunc(changes, func(a, b change) int { return bytes.Compare(a.hash[:], b.hash[:]) })
	return write(path, Head{Point: at, Parts: s.Parts()}, func(take func(hash, int, []byte) error) error {
		next := 0
		until := func(h *hash) error {
			for ; next < len(changes) && (h == nil || bytes.Compare(changes[next].hash[:], h[:]) < 0); next++ {
				if c := &changes[next]; c.text != nil {
					if err := take(c.hash, 0, c.text); err != nil {
						return err
					}
				}
			}
			return nil
		}
		err := base.each(func(h hash, text []byte) error {
			if err := until(&h); err != nil {
				return err
			}
			if next < len(changes) && changes[next].hash == h {
				return nil // its place is taken, or it is gone
			}
			return take(h, 0, text)
		})
		return cmp.Or(err, until(nil))
	})
}

// write writes a file of records that come in order, and opens it. To the parts of head
// those of the records are added.
func write(path string, head Head, each func(func(hash, int, []byte) error) error) (*File, error) {
	if err := rulesource.Replace(path, func(f *os.File) error {
		large, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
		if err != nil {
			return err
		}
		defer os.Remove(large.Name())
		defer large.Close()
		w := &writer{out: bufio.NewWriterSize(f, 1<<20), large: bufio.NewWriterSize(large, 1<<16), words: map[string]int{}, head: head}
		_, err = w.out.WriteString(magic)
		return cmp.Or(err, each(w.add), w.finish(large))
	}); err != nil {
		return nil, fmt.Errorf("write accounts: %w", err)
	}
	return Open(path)
}

// writer writes records that come in order.
type writer struct {
	out, large *bufio.Writer
	head       Head
	block      []byte // without its beginning
	records    int
	first      hash
	index      []byte
	words      map[string]int
	list       []byte // the dictionary
}

// add adds a record.
func (w *writer) add(h hash, parts int, text []byte) error {
	r := record{hash: h}
	switch word, known := w.words[string(text)]; {
	case known:
		r.where, r.word = inDictionary, word
	case len(text) <= maxWord && len(w.words) < maxDictionary:
		r.where, r.word = inDictionary, len(w.words)
		w.words[string(text)] = r.word
		w.list = append(binary.AppendUvarint(w.list, uint64(len(text))), text...)
	case len(text) <= maxInline:
		r.where, r.text = inRecord, text
	case len(text) > maxText:
		return fmt.Errorf("an account of %d bytes; hint: at most %d", len(text), maxText)
	default:
		r.where, r.length, r.offset, r.sum = amongLarge, len(text), int64(w.head.Large), crc32.Checksum(text, table)
		if _, err := w.large.Write(text); err != nil {
			return err
		}
		w.head.Large += len(text)
	}
	w.head.Accounts++
	w.head.Parts += parts
	before := len(w.block)
	w.block = r.append(w.block)
	if blockHead+len(w.block) > blockSize {
		last := bytes.Clone(w.block[before:])
		w.block = w.block[:before]
		if err := w.flush(); err != nil {
			return err
		}
		w.block = append(w.block, last...)
	}
	if w.records == 0 {
		w.first = h
	}
	w.records++
	return nil
}

// flush writes the block.
func (w *writer) flush() error {
	if w.records == 0 {
		return nil
	}
	full := seal(append(make([]byte, blockHead, blockSize), w.block...), w.records)
	w.index = binary.BigEndian.AppendUint64(w.index, w.first.prefix())
	w.block, w.records = w.block[:0], 0
	w.head.Blocks++
	if w.head.Blocks > maxBlocks {
		return fmt.Errorf("more than %d blocks of accounts", maxBlocks)
	}
	_, err := w.out.Write(full)
	return err
}

// finish writes what follows the blocks.
func (w *writer) finish(large *os.File) error {
	err := cmp.Or(w.flush(), w.large.Flush())
	if err == nil {
		_, err = large.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = io.Copy(w.out, large)
	}
	if err != nil {
		return err
	}
	end := append(w.list, w.index...)
	w.head.Words, w.head.Dictionary, w.head.Checksum = len(w.words), len(w.list), crc32.Checksum(end, table)
	head, err := json.Marshal(&w.head)
	if err != nil {
		return err
	}
	end = append(end, head...)
	end = binary.BigEndian.AppendUint32(end, uint32(len(head)))
	end = binary.BigEndian.AppendUint32(end, crc32.Checksum(head, table))
	if _, err = w.out.Write(append(end, magic...)); err != nil {
		return err
	}
	return w.out.Flush()
}

// MostChanges is how many changes beside a file of so many accounts are none too many: they
// are in memory, and writing the file anew takes as long as it has accounts.
func MostChanges(accounts int) int { return min(max(accounts/16, 10_000), 200_000) }
