package accountfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
)

const (
	// partitions is how many parts the records are sorted in, by the first byte of their
	// hashes: of ten million accounts each has 40,000.
	partitions = 256
	// partitionRoom is what of a part is in memory until it is written, in bytes.
	partitionRoom = 64 << 10
)

// spill sorts records that come in any order: they are put into parts in a file, and each
// part is sorted in memory by itself.
type spill struct {
	file *os.File
	end  int64
	// rooms are what is not in the file yet, chunks where the rest of each part is.
	rooms  [partitions][]byte
	chunks [partitions][]chunk
}

type chunk struct {
	at   int64
	size int
}

func newSpill(dir string) (*spill, error) {
	f, err := os.CreateTemp(dir, "accounts.*.tmp")
	if err != nil {
		return nil, err
	}
	return &spill{file: f}, nil
}

func (s *spill) remove() {
	s.file.Close()
	os.Remove(s.file.Name())
}

// add adds a record.
func (s *spill) add(h hash, parts int, text []byte) error {
	at := int(h[0])
	room := append(s.rooms[at], h[:]...)
	room = binary.AppendUvarint(room, uint64(parts))
	room = binary.AppendUvarint(room, uint64(len(text)))
	s.rooms[at] = append(room, text...)
	if len(s.rooms[at]) < partitionRoom {
		return nil
	}
	return s.flush(at)
}

func (s *spill) flush(at int) error {
	n, err := s.file.WriteAt(s.rooms[at], s.end)
	if err != nil {
		return err
	}
	s.chunks[at] = append(s.chunks[at], chunk{s.end, n})
	s.end += int64(n)
	s.rooms[at] = s.rooms[at][:0]
	return nil
}

// spilled is a record of a part that is being sorted.
type spilled struct {
	hash  hash
	parts int
	text  []byte
}

// each hands over all records in order. Of two with one hash it takes the one that came
// last.
func (s *spill) each(take func(hash, int, []byte) error) error {
	for at := range partitions {
		list, err := s.part(at)
		if err != nil {
			return err
		}
		slices.SortStableFunc(list, func(a, b spilled) int { return bytes.Compare(a.hash[:], b.hash[:]) })
		for i := range list {
			if i+1 < len(list) && list[i+1].hash == list[i].hash {
				continue
			}
			if err := take(list[i].hash, list[i].parts, list[i].text); err != nil {
				return err
			}
		}
	}
	return nil
}

// part reads a part.
func (s *spill) part(at int) (list []spilled, err error) {
	size := len(s.rooms[at])
	for _, c := range s.chunks[at] {
		size += c.size
	}
	data := make([]byte, 0, size)
	for _, c := range s.chunks[at] {
		part := data[len(data) : len(data)+c.size]
		if _, err := s.file.ReadAt(part, c.at); err != nil {
			return nil, err
		}
		data = data[:len(data)+c.size]
	}
	data = append(data, s.rooms[at]...)
	for len(data) > 0 {
		one := spilled{hash: hash(data[:hashSize])}
		data = data[hashSize:]
		parts, n := binary.Uvarint(data)
		length, m := binary.Uvarint(data[max(n, 0):])
		if n <= 0 || m <= 0 || int(length) > len(data)-n-m {
			return nil, fmt.Errorf("sort accounts: %w", errFormat)
		}
		one.parts, one.text = int(parts), data[n+m:n+m+int(length)]
		list, data = append(list, one), data[n+m+int(length):]
	}
	return list, nil
}
