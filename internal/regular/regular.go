// Package regular opens regular files alone: to open a named pipe would wait for its writer, and
// a device may have no end. Its errors are of type *fs.PathError, and hold nothing of a file.
package regular

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Stat returns what is known of the file at path. What is no regular file is an error, and so is
// one that is not there, by fs.ErrNotExist.
func Stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, unread(path, "not a regular file (%s); hint: is this the right file?", info.Mode().Type())
	}
	return info, err
}

// Open opens the file at path, to be read. Its errors are those of Stat too.
func Open(path string) (*os.File, error) {
	if _, err := Stat(path); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// Read returns the bytes of the file at path, if it has at most so many. Its errors are those of
// Open too.
func Read(path string, most int64) ([]byte, error) {
	info, err := Stat(path)
	if err != nil {
		return nil, err
	}
	tooLong := unread(path, "more than %d bytes; hint: is this the right file?", most)
	if info.Size() > most {
		return nil, tooLong
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most { // it has grown meanwhile
		return nil, tooLong
	}
	return data, err
}

func unread(path, why string, args ...any) error {
	return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf(why, args...)}
}
