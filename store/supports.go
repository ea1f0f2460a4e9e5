package store

import "github.com/headgate/headgate/limit"

// Supporter is a Store that cannot decide every limit, or a layer over one.
type Supporter interface {
	Store
	// Supports returns why takes by limits such as l cannot be decided; nil if they can.
	Supports(l *limit.Limit) error
}

// Supports returns why s cannot decide takes by limits such as l; nil if it can, which is
// so for all that are no Supporter.
func Supports(s Store, l *limit.Limit) error {
	if some, ok := s.(Supporter); ok {
		return some.Supports(l)
	}
	return nil
}
