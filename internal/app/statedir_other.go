//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package app

import (
	"errors"
	"os"
)

// holdDir locks a directory; without it nobody knows who uses it.
func holdDir(string) (*os.File, error) { return nil, errors.ErrUnsupported }
