package answercost

import (
	"compress/gzip"
	"io"
)

// maxUnzipped bounds what is made of one compressed answer, in bytes: what comes after
// that is not read, so that a small answer cannot be much work.
const maxUnzipped = 64 << 20

// unzip takes apart what comes compressed and in parts. A reader of gzip asks for bytes and
// is not given them, so it has a goroutine of its own, which goes on only while write and
// close wait for it.
type unzip struct {
	in   *io.PipeWriter
	done chan struct{}
}

// newUnzip returns an unzip that gives feed each part. feed is not called any more once
// close has returned.
func newUnzip(feed func([]byte)) *unzip {
	out, in := io.Pipe()
	u := &unzip{in: in, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		// What is malformed is read up to there; whoever gets the answer sees the fault.
		_ = unzipTo(feed, out)
		_ = out.Close() // what is written after that is dropped
	}()
	return u
}

func unzipTo(feed func([]byte), from io.Reader) error {
	z, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(feeder(feed), io.LimitReader(z, maxUnzipped), make([]byte, 8<<10))
	return err
}

type feeder func([]byte)

// Write implements io.Writer.
func (f feeder) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// write returns when p has been taken.
func (u *unzip) write(p []byte) { _, _ = u.in.Write(p) }

func (u *unzip) close() {
	_ = u.in.Close()
	<-u.done
}
