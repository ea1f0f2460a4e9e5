package apikeys

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/internal/identityfile"
)

// Files says where it stands by which key API keys are hashed, and in which entries they
// come. Either may be "", for none.
type Files struct {
	// Identity is the file of package identityfile, HashKey one that holds the key alone.
	Identity, HashKey string
}

// errTwoKeys is for an account that was written by one key and is looked for by another.
var errTwoKeys = errors.New("the hash key is not the hash_key_file of the identity file, so that a quota for an API key would never be found; hint: give both the same file, or name one of them alone")

// Read returns what names API keys, both nil where no file has a key for that. The error
// holds no secret.
func (f Files) Read() (*Names, *identity.Hasher, error) {
	hasher, err := ReadHasher(f.HashKey)
	if err != nil {
		return nil, nil, err
	}
	var entries []string
	if f.Identity != "" {
		source, err := identityfile.Load(identityfile.Options{Path: f.Identity})
		if err != nil {
			return nil, nil, err
		}
		entries = source.KeyEntries
		switch {
		case hasher == nil:
			hasher = source.Hasher
		case source.Hasher != nil && source.Hasher.APIKey("") != hasher.APIKey(""):
			return nil, nil, errTwoKeys
		}
	}
	if hasher == nil {
		return nil, nil, nil
	}
	return New(Options{Hasher: hasher, Entries: entries}), hasher, nil
}

// ReadHasher returns what hashes by the key in a file, nil for "". The ends of lines
// after the key are no part of it.
func ReadHasher(path string) (*identity.Hasher, error) {
	if path == "" {
		return nil, nil
	}
	key, err := credentials.ReadFile("key file", path)
	if err != nil {
		return nil, err
	}
	hasher, err := identity.NewHasher(identity.NewSecret(strings.TrimRight(string(key), "\r\n")))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return hasher, nil
}
