package yamlfile

import (
	"bytes"
	"fmt"
	"sync/atomic"
)

// File is a file that is followed, read as a T. It may hold secrets: see In. Its Get is safe for
// concurrent use. Make one with NewFile.
type File[T any] struct {
	what, path string
	limit      int64
	parse      func(data []byte) (*T, error)
	read       []byte // what Reload saw last
	current    atomic.Pointer[T]
}

// NewFile returns the file at path of at most limit bytes, of which nothing is read yet: see
// Reload. what says in errors what is in it.
func NewFile[T any](what, path string, limit int64, parse func(data []byte) (*T, error)) *File[T] {
	return &File[T]{what: what, path: path, limit: limit, parse: parse}
}

// Get returns what is in force, nil before Reload has read a good file.
func (f *File[T]) Get() *T { return f.current.Load() }

// Reload reads the file again and reports whether it has changed. A file that cannot be
// read or used leaves in force what was; its error is told once, until the file changes.
// No two calls may overlap.
func (f *File[T]) Reload() (changed bool, err error) {
	data, err := ReadFollowed(f.path, f.limit)
	if err != nil {
		data = []byte(err.Error()) // so that it counts as a change when it can be read
	}
	if f.read != nil && bytes.Equal(data, f.read) {
		return false, nil
	}
	f.read = data
	if err != nil {
		return true, fmt.Errorf("read %s: %w", f.what, err)
	}
	t, err := f.parse(data)
	if err != nil {
		return true, In(f.path, err)
	}
	f.current.Store(t)
	return true, nil
}
