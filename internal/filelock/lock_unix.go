//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

// Package filelock says which process has a file, or a directory, as long as it lives.
package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Lock locks f until it is closed, or its process ends; it is false where another one has
// locked it.
func Lock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
