package audit

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/filelock"
	"github.com/headgate/headgate/internal/sleep"
)

const (
	// tidyEvery is how often the janitor looks when nobody calls.
	tidyEvery = time.Minute
	// unfinishedSuffix ends the name of a file that is being compressed.
	unfinishedSuffix = ".tmp"
	// tailBytes is how much of a file is read at once to find its last line end.
	tailBytes = 16 << 10
)

// janitor finishes the files of a directory that nobody writes any more, those that a
// crash has left among them, and removes old ones.
type janitor struct {
	c     filesConfig
	nudge sleep.Nudge

	mu  sync.Mutex
	err error // of the last time
}

// call has the janitor look soon.
func (j *janitor) call() { j.nudge.Give() }

// failure returns why not all is tidy.
func (j *janitor) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// run tidies until ctx ends.
func (j *janitor) run(ctx context.Context) {
	for range j.nudge.AtOnce(ctx, tidyEvery) {
		j.tidy(ctx, time.Now())
	}
}

// tidy finishes what can be, and removes what is too old or too much.
func (j *janitor) tidy(ctx context.Context, now time.Time) {
	err := errors.Join(j.finishAll(ctx), j.removeOld(now))
	if ctx.Err() != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = err
}

// finishAll finishes all files that nobody writes.
func (j *janitor) finishAll(ctx context.Context) error {
	entries, err := os.ReadDir(j.c.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var first error
	bad := 0
	for _, e := range entries {
		if ctx.Err() != nil {
			break
		}
		if !strings.HasPrefix(e.Name(), filePrefix) || !strings.HasSuffix(e.Name(), lineSuffix+openSuffix) || !e.Type().IsRegular() {
			continue
		}
		if err := j.finish(ctx, filepath.Join(j.c.dir, e.Name())); err != nil {
			first, bad = cmp.Or(first, err), bad+1
		}
	}
	if bad > 1 { // what is wrong with one is mostly wrong with all
		return fmt.Errorf("%w; and so with %d files more", first, bad-1)
	}
	return first
}

// finish finishes a file unless somebody writes it: a torn last line is cut off, and
// the file gets its final name, compressed or not, at once and whole.
func (j *janitor) finish(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // another process has finished it
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if locked, err := filelock.Lock(f); err != nil || !locked || !inPlace(f) {
		return err
	}
	size, err := cutTail(f)
	switch {
	case err != nil:
		return err
	case size == 0:
		return os.Remove(path)
	}
	name := strings.TrimSuffix(path, openSuffix)
	if !j.c.compress {
		if err := os.Rename(path, name); err != nil {
			return err
		}
		return j.syncDir()
	}
	if err := j.compress(ctx, f, name+gzipSuffix); err != nil {
		return err
	}
	return os.Remove(path)
}

// cutTail cuts what follows the last line end of f and returns what remains.
func cutTail(f *os.File) (size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	var room [tailBytes]byte
	end := info.Size()
	for size = end; size > 0; {
		part := room[:min(size, tailBytes)]
		if _, err := f.ReadAt(part, size-int64(len(part))); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			size -= int64(len(part) - i - 1)
			break
		}
		size -= int64(len(part))
	}
	if size == end {
		return size, nil
	}
	return size, f.Truncate(size)
}

// compress writes f to path, which appears when it is whole.
func (j *janitor) compress(ctx context.Context, f *os.File, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil // a crash came before f was removed
	}
	unfinished := path + unfinishedSuffix
	z, err := anew(unfinished)
	if err != nil {
		return err
	}
	err = errors.Join(j.zip(ctx, z, f), z.Close())
	if err == nil {
		err = os.Rename(unfinished, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(unfinished))
	}
	return j.syncDir()
}

// anew begins a file. What a crash has left there is removed, and never opened: it may as well be a link to a file
// of somebody else, or a pipe that would wait for its reader.
func anew(path string) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && !info.IsDir() {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, filePerm)
}

// zip writes f to z, which gets its time: that of the last event.
func (j *janitor) zip(ctx context.Context, z, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	to, err := gzip.NewWriterLevel(z, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, &interruptible{ctx, io.NewSectionReader(f, 0, info.Size())}); err != nil {
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	if j.c.sync != syncNever {
		if err := z.Sync(); err != nil {
			return err
		}
	}
	return os.Chtimes(z.Name(), time.Time{}, info.ModTime())
}

// interruptible reads until ctx ends.
type interruptible struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (r *interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// syncDir has names of the directory survive a loss of power.
func (j *janitor) syncDir() error {
	if j.c.sync == syncNever {
		return nil
	}
	d, err := os.Open(j.c.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// removeOld removes finished files that are too old, and the oldest while there is too
// much of them. Files that others write count, and are not removed.
func (j *janitor) removeOld(now time.Time) error {
	entries, err := os.ReadDir(j.c.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var finished []os.FileInfo
	total := int64(0)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !strings.HasPrefix(e.Name(), filePrefix) || !info.Mode().IsRegular() {
			continue // removed by another process, or not ours
		}
		total += info.Size()
		if strings.HasSuffix(e.Name(), lineSuffix) || strings.HasSuffix(e.Name(), lineSuffix+gzipSuffix) {
			finished = append(finished, info)
		}
	}
	slices.SortFunc(finished, func(a, b os.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, f := range finished {
		if now.Sub(f.ModTime()) <= j.c.keep && total <= j.c.keepSize {
			continue
		}
		if err := os.Remove(filepath.Join(j.c.dir, f.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		total -= f.Size()
	}
	return nil
}
