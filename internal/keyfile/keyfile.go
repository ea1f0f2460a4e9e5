// Package keyfile reads the keys that something is signed with: a file with one key
// to a line. The first one signs and all of them verify, so that a key can be
// exchanged while what the one before has signed is still about:
//
//	# openssl rand -base64 32
//	tF0mY1kq...    signs
//	3bq0x9Zr...    the one before
package keyfile

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/yamlfile"
)

const (
	// MinKey is the least length of a key, in bytes; 32 random ones are best.
	MinKey = 32
	// MaxKeys bounds the keys of a file: one that signs, and those that go.
	MaxKeys = 4
	// maxFile bounds a file, in bytes.
	maxFile = 64 << 10
)

// Read returns the keys of the file at path, of which there is at least one. Errors
// hold nothing of the file.
func Read(path string) ([]identity.Secret, error) {
	data, err := yamlfile.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	keys, err := Parse(data)
	return keys, yamlfile.In(path, err)
}

// Parse reads the text of a file. Empty lines, and those that begin with "#", say
// nothing.
func Parse(data []byte) ([]identity.Secret, error) {
	var keys []identity.Secret
	line := 0
	for text := range strings.Lines(string(data)) {
		line++
		text = strings.TrimSpace(text)
		if text == "" || text[0] == '#' {
			continue
		}
		key := identity.NewSecret(text)
		if err := checkLength(key); err != nil {
			return nil, &yamlfile.Error{Line: line, Err: err}
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 || len(keys) > MaxKeys {
		return nil, fmt.Errorf("%d keys; hint: one to a line, %d at most; `openssl rand -base64 32` makes one", len(keys), MaxKeys)
	}
	return keys, nil
}

// checkLength refuses a key that is too short.
func checkLength(key identity.Secret) error {
	if n := len(key.Reveal()); n < MinKey {
		return fmt.Errorf("a key of %d bytes; hint: at least %d; `openssl rand -base64 32` makes one", n, MinKey)
	}
	return nil
}
