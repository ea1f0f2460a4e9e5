package snapfeed

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/headgate/headgate/internal/regular"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/strictjson"
)

// keptName is the name of the file of answers: the last one that had all, and those since.
// Each is the length of a line of JSON, that line, the length of the body, and the body,
// lengths in 4 bytes. They are verified again when they are read.
const keptName = "followed-answers"

func (f *Follower) keptPath() string { return filepath.Join(f.options.Dir, keptName) }

// encode returns r as it is kept.
func (r *reply) encode() ([]byte, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(len(line)))
	out = append(out, line...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(r.body)))
	return append(out, r.body...), nil
}

// readReply reads what encode has written. io.EOF says that there is no more.
func readReply(from io.Reader) (*reply, error) {
	line, err := readPart(from, maxHead)
	if err != nil {
		return nil, err
	}
	r := new(reply)
	if err := strictjson.Decode(line, r); err != nil {
		return nil, err
	}
	if r.body, err = readPart(from, maxMessage); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return r, err
}

func readPart(from io.Reader, most uint32) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > most {
		return nil, fmt.Errorf("a part of %d bytes", n)
	}
	// As much as is there, not as much as is said.
	var out bytes.Buffer
	if _, err := io.CopyN(&out, from, int64(n)); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return out.Bytes(), nil
}

// keep keeps an answer: in place of all others where it has all.
func (f *Follower) keep(r *reply, full bool) error {
	data, err := r.encode()
	if err != nil {
		return err
	}
	if full {
		if err := rulesource.WriteWhole(f.keptPath(), data); err != nil {
			return err
		}
		f.kept = int64(len(data))
		return nil
	}
	if f.kept > maxKept {
		return nil // all is fetched anew as soon as there is a newer file
	}
	if _, err := regular.Stat(f.keptPath()); err != nil { // a pipe would wait for its reader
		return err
	}
	out, err := os.OpenFile(f.keptPath(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	f.kept += int64(len(data))
	return cmp.Or(err, out.Close())
}

// restore puts in force what was kept. Answers after one that is not whole, as a process
// that was killed leaves it, are passed over.
func (f *Follower) restore() error {
	file, err := regular.Open(f.keptPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	from := bufio.NewReaderSize(file, 1<<16)
	for first := true; ; first = false {
		r, err := readReply(from)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f.again(r)
		}
		if err != nil {
			f.kept = maxKept + 1 // what follows would not be read
			if first {
				return err
			}
			return nil
		}
	}
}

// again puts an answer in force that was kept.
func (f *Follower) again(r *reply) error {
	if err := verify(f.options.Verifier(), r.Nonce, r.ETag, r.body, r.Signature); err != nil {
		return err
	}
	m, err := decode(r.body)
	if err == nil {
		err = f.fits(m, f.at)
	}
	if err == nil {
		err = f.take(context.Background(), m, true)
	}
	if err == nil {
		f.etag, f.kept = r.ETag, f.kept+int64(len(r.body))
		f.readAt.Store(r.At)
	}
	return err
}

// forget removes files of accounts but for one: those that are open stay readable.
func (f *Follower) forget(but string) {
	entries, err := os.ReadDir(f.options.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, "followed-") && name != keptName && name != filepath.Base(f.basePath(but)) {
			_ = os.Remove(filepath.Join(f.options.Dir, name)) // the next time, then
		}
	}
}
