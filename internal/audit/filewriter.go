package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/filelock"
)

const (
	// openSuffix ends the name of a file that is not finished.
	openSuffix = ".open"
	// lineSuffix ends the names of finished ones, with gzipSuffix behind it where they are
	// compressed.
	lineSuffix = ".jsonl"
	gzipSuffix = ".gz"
	filePrefix = "events-"
	fileTime   = "20060102T150405Z"

	filePerm, dirPerm = 0o600, 0o700

	maxFileNode = 64
	// nameAttempts bounds how many names are tried that others have taken.
	nameAttempts = 1000
	// lookEvery is how often the writer looks whether its file is still in its place.
	lookEvery = time.Second
)

// fileWriter writes lines to files of a directory, one after the other. It holds a lock
// on the one that it writes; a file that nobody has locked is left for the janitor.
type fileWriter struct {
	c    filesConfig
	node string
	// left is called when a file is left to be finished.
	left func()
	// number is that of the last file. It begins anywhere, so that files of two processes
	// that call themselves alike have different names, wherever they are taken.
	number uint32

	file     *os.File // nil: none is open
	size     int64
	opened   time.Time
	unsynced time.Time // when the first was written that may not be on disk
	looked   time.Time
	retryAt  time.Time
}

// fileNode returns a name of the node that may stand in the name of a file.
func fileNode(node string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, node)
	if clean == "" {
		return "node"
	}
	return clean[:min(len(clean), maxFileNode)]
}

// write writes events of p, from next on, to one file, and returns how many. Of an
// error the file ends with the last whole line.
func (w *fileWriter) write(p *pending, now time.Time) (int, error) {
	if err := w.look(now); err != nil {
		return 0, err
	}
	if w.file == nil {
		if err := w.open(now); err != nil {
			return 0, err
		}
	}
	from := p.start(p.next)
	n, bytes := w.fitting(p)
	if n == 0 {
		return 0, w.rotate()
	}
	done, err := w.file.Write(p.Lines[from : from+bytes])
	if err == nil && w.c.sync == syncAlways {
		if err = w.file.Sync(); err != nil {
			done = 0 // nobody knows what is on disk
		}
	}
	if err != nil {
		n, bytes = 0, 0
		for i := p.next; i < len(p.Events) && p.Events[i].End-from <= done && w.c.sync != syncAlways; i++ {
			n, bytes = n+1, p.Events[i].End-from
		}
		w.cut(w.size + int64(bytes))
	}
	w.size += int64(bytes)
	if n > 0 && w.unsynced.IsZero() {
		w.unsynced = now
	}
	return n, err
}

// fitting returns how many events of p, and bytes of them, the file has room for; in an
// empty one there is always room for one.
func (w *fileWriter) fitting(p *pending) (n, bytes int) {
	from := p.start(p.next)
	for _, line := range p.Events[p.next:] {
		if size := w.size + int64(line.End-from); size > w.c.maxSize && (n > 0 || w.size > 0) {
			break
		}
		n, bytes = n+1, line.End-from
	}
	return n, bytes
}

// cut makes the file end at size. It is given up when that fails, for the janitor to cut
// it, and where what is on disk must be known.
func (w *fileWriter) cut(size int64) {
	if err := w.file.Truncate(size); err != nil || w.c.sync == syncAlways {
		_ = w.leave() // the error that came before is told
	}
}

// open begins a file under a name that nobody else has.
func (w *fileWriter) open(now time.Time) error {
	if err := os.MkdirAll(w.c.dir, dirPerm); err != nil {
		return err
	}
	for range nameAttempts {
		w.number++
		name := filepath.Join(w.c.dir, fmt.Sprintf("%s%s-%s-%010d%s", filePrefix, w.node, now.UTC().Format(fileTime), w.number, lineSuffix))
		f, err := os.OpenFile(name+openSuffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, filePerm)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if locked, err := filelock.Lock(f); err != nil {
			return errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		} else if locked && inPlace(f) && !finished(name) {
			w.file, w.size, w.opened, w.looked, w.unsynced = f, 0, now, now, time.Time{}
			return nil
		}
		f.Close() // a janitor removes it, and may have had it before us
	}
	return fmt.Errorf("open a file in %s: all names are taken", w.c.dir)
}

// finished reports whether there is a finished file of this name. Whoever has locked the
// open one need not fear that there soon is.
func finished(name string) bool {
	_, plain := os.Lstat(name)
	_, zipped := os.Lstat(name + gzipSuffix)
	return plain == nil || zipped == nil
}

// inPlace reports whether f is still the file of its name.
func inPlace(f *os.File) bool {
	here, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(here, there)
}

// look gives the file up when somebody has removed it: what is written to it then nobody
// would ever read.
func (w *fileWriter) look(now time.Time) error {
	if w.file == nil || now.Sub(w.looked) < lookEvery {
		return nil
	}
	w.looked = now
	if inPlace(w.file) {
		return nil
	}
	return w.leave()
}

// maintain syncs the file and leaves it when it is time to.
func (w *fileWriter) maintain(now time.Time) error {
	if w.file == nil {
		return nil
	}
	if w.size > 0 && now.Sub(w.opened) >= w.c.maxAge {
		return w.rotate()
	}
	if w.c.sync > 0 && !w.unsynced.IsZero() && now.Sub(w.unsynced) >= w.c.sync {
		if err := w.file.Sync(); err != nil {
			// Another try would say that all is well, though it is not.
			return errors.Join(err, w.leave())
		}
		w.unsynced = time.Time{}
	}
	return nil
}

// wait returns the time until there is something to do, if nothing comes.
func (w *fileWriter) wait(now time.Time) time.Duration {
	if !w.retryAt.IsZero() {
		return max(w.retryAt.Sub(now), time.Millisecond)
	}
	next := now.Add(time.Hour)
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if w.file != nil && w.size > 0 {
		earlier(w.opened.Add(w.c.maxAge))
	}
	if w.file != nil && w.c.sync > 0 && !w.unsynced.IsZero() {
		earlier(w.unsynced.Add(w.c.sync))
	}
	return max(next.Sub(now), time.Millisecond)
}

// rotate leaves the file with all that is in it on disk.
func (w *fileWriter) rotate() error {
	var err error
	if w.c.sync != syncNever {
		err = w.file.Sync()
	}
	return errors.Join(err, w.leave())
}

// leave closes the file and leaves it to the janitor.
func (w *fileWriter) leave() error {
	err := w.file.Close()
	w.file, w.size = nil, 0
	w.left()
	return err
}

// finish leaves the last file.
func (w *fileWriter) finish() {
	if w.file != nil {
		_ = w.rotate() // what is not on disk now was told of before
	}
}
