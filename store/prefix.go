package store

import (
	"errors"
	"fmt"

	"github.com/headgate/headgate/internal/ascii"
)

// MaxPrefix bounds, in bytes, what begins the name of every key of a store.
const MaxPrefix = 64

// CheckPrefix says what is wrong with what begins the name of every key of a store: it
// has up to MaxPrefix letters, digits and ":._-/". These are of no meaning to patterns of
// ACLs, to hash tags and to protocols of lines. "" is right: it stands for a default.
func CheckPrefix(prefix string) error {
	if len(prefix) > MaxPrefix {
		return fmt.Errorf("the prefix has %d bytes; hint: at most %d, it is part of every key", len(prefix), MaxPrefix)
	}
	if !ascii.Only(prefix, ":._-/") {
		return errors.New("the prefix holds a character that it may not; hint: letters, digits and : . _ - / (such as shop-eu:)")
	}
	return nil
}
