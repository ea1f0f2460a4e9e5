package timeline

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/headgate/headgate/internal/regular"
	"github.com/headgate/headgate/internal/rulesource"
)

// A file of minutes: the mark, each minute that is known, and the CRC-32 (IEEE) of all before. Numbers are
// little endian, and slots are as slotSize has them, at first.
const mark = "headgate timeline 1\n"

// slotSize is how many bytes a slot has in a file.
var slotSize = binary.Size(kept{})

// kept is a slot as it stands in a file.
type kept struct {
	At       int64
	Known    uint32
	P50, P99 float32
	Counts   [outcomes]uint32
}

// encode returns the minutes as a file holds them.
func (t *Timeline) encode() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	data := []byte(mark)
	for _, s := range t.minute.slots {
		if s.at != 0 {
			data, _ = binary.Append(data, binary.LittleEndian, kept{s.at, s.known, s.p50, s.p99, s.counts}) // a fixed size: no error
		}
	}
	return binary.LittleEndian.AppendUint32(data, crc32.ChecksumIEEE(data))
}

// decode takes the minutes of a file that lie before what is known. A file that is not whole changes nothing.
func (t *Timeline) decode(data []byte) error {
	body, ok := bytes.CutPrefix(data, []byte(mark))
	if !ok {
		return errors.New("not a file of this kind")
	}
	n := (len(body) - crc32.Size) / slotSize
	if len(body) != n*slotSize+crc32.Size || n > minutes {
		return fmt.Errorf("%d bytes, which is no whole number of minutes up to %d", len(data), minutes)
	}
	if sum := data[len(data)-crc32.Size:]; binary.LittleEndian.Uint32(sum) != crc32.ChecksumIEEE(data[:len(data)-crc32.Size]) {
		return errors.New("damaged: its checksum is another one")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.at.Unix() / t.minute.step
	for ; n > 0; n-- {
		var k kept
		_, _ = binary.Decode(body, binary.LittleEndian, &k) // long enough, and of a fixed size
		body = body[slotSize:]
		s := slot{at: k.At, known: k.Known, p50: k.P50, p99: k.P99, counts: k.Counts}
		if s.valid() && s.at <= now && s.at > now-minutes && t.minute.slot(s.at) == nil {
			t.minute.add(s.at*t.minute.step, s)
		}
	}
	return nil
}

// valid reports whether the slot can be one of ours: a file that was made by hand may say anything.
func (s *slot) valid() bool {
	return s.at > 0 && s.p50 >= 0 && s.p99 >= 0 && s.p50 < 1e9 && s.p99 < 1e9
}

// Keep writes the minutes to a file, whole or not at all.
func (t *Timeline) Keep(path string) error {
	if err := rulesource.WriteWhole(path, t.encode()); err != nil {
		return fmt.Errorf("keep the timeline: %w; hint: --state-dir names a directory that can be written", err)
	}
	return nil
}

// Recall reads minutes that were kept. Of a file that is not there it says so by fs.ErrNotExist; no error
// changes anything.
func (t *Timeline) Recall(path string) error {
	data, err := regular.Read(path, int64(len(mark)+minutes*slotSize+crc32.Size))
	if err != nil {
		return fmt.Errorf("recall the timeline: %w", err)
	}
	if err := t.decode(data); err != nil {
		return fmt.Errorf("recall the timeline of %s: %w; hint: it is written anew within five minutes", path, err)
	}
	return nil
}
