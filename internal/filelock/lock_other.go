//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

// Package filelock says which process has a file, or a directory, as long as it lives.
package filelock

import (
	"errors"
	"os"
)

// Lock returns errors.ErrUnsupported: nobody knows who has f.
func Lock(*os.File) (bool, error) { return false, errors.ErrUnsupported }
