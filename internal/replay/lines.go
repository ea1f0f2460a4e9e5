package replay

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// MaxLine bounds a line in bytes: audit events have 7 KiB at most, and servers take headers of
// some tens of KiB.
const MaxLine = 256 << 10

// errLongLine is for a line of more than MaxLine bytes.
var errLongLine = fmt.Errorf("longer than %d KiB", MaxLine>>10)

// lines reads a file line by line, and undoes gzip where it finds that.
type lines struct {
	file    io.ReadCloser
	reader  *bufio.Reader
	number  int
	partial []byte // a line that is longer than the buffer of reader
}

// readBuffer is larger than almost all lines.
const readBuffer = 64 << 10

func newLines(file io.ReadCloser) (*lines, error) {
	raw := bufio.NewReaderSize(file, readBuffer)
	head, err := raw.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return &lines{file: file, reader: raw}, nil
	}
	unzipped, err := gzip.NewReader(raw)
	if err != nil {
		return nil, damaged(err)
	}
	return &lines{file: file, reader: bufio.NewReaderSize(unzipped, readBuffer)}, nil
}

// next returns the next line without its end; the slice is good until the next call. After an
// errLongLine it goes on with the line behind.
func (l *lines) next() ([]byte, error) {
	l.partial = l.partial[:0]
	for {
		part, err := l.reader.ReadSlice('\n')
		switch {
		case err == nil && len(l.partial) == 0:
			l.number++
			return bytes.TrimRight(part, "\r\n"), nil
		case err == nil, errors.Is(err, io.EOF) && len(l.partial)+len(part) > 0:
			l.number++
			if len(l.partial)+len(part) > MaxLine {
				return nil, errLongLine
			}
			return bytes.TrimRight(append(l.partial, part...), "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, damaged(err)
		}
		if len(l.partial) <= MaxLine { // beyond, that it is too long is known
			l.partial = append(l.partial, part...)
		}
	}
}

// damaged says what to do about a file whose gzip does not go on to its end; other errors stay as they
// are. What is missing may be any number of lines, so none of those before it count.
func damaged(err error) error {
	var corrupt flate.CorruptInputError
	if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, gzip.ErrHeader) && !errors.Is(err, gzip.ErrChecksum) && !errors.As(err, &corrupt) {
		return err
	}
	return fmt.Errorf("its gzip is cut off or damaged (%w); hint: copy the file again, or give what zcat can still read of it by standard input (-)", err)
}

func (l *lines) close() error { return l.file.Close() }
