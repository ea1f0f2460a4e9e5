package rules

import "fmt"

// MaxStoreName bounds the name of a store, in bytes.
const MaxStoreName = 32

// CheckStoreName returns why no store can have a name, nil if one can: a lower-case letter,
// then lower-case letters, digits, "-" and "_". It stands in metrics.
func CheckStoreName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("an empty name; hint: leave it out for the store of --store")
	case len(name) > MaxStoreName:
		return fmt.Errorf("a name of %d bytes; hint: at most %d", len(name), MaxStoreName)
	}
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '-' && c != '_') {
			return fmt.Errorf("name %q; hint: a lower-case letter, then lower-case letters, digits, - and _", name)
		}
	}
	return nil
}
