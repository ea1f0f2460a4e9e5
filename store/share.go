package store

import (
	"context"

	"github.com/headgate/headgate/limit"
)

// Bounds of what nodes share.
const (
	// MaxShared is how many things a Sharer holds at one time; while so many last,
	// others are not taken in.
	MaxShared = 256
	// MaxSharedText bounds Shared.Text, in bytes.
	MaxSharedText = 128
)

// SharedName names something that nodes share: a keyed hash, so that nobody reads from
// it what it is of.
type SharedName [16]byte

// Shared is something small that the nodes of a fleet tell each other, so that one of
// them asks for it and not all.
type Shared struct {
	Name SharedName
	// Until is the instant, by the store's clock, at which it ends.
	Until limit.Micros
	// Text is up to MaxSharedText bytes.
	Text []byte
}

// Sharing is what all nodes share at one instant.
type Sharing struct {
	// Now is that instant, by the store's clock.
	Now limit.Micros
	// Salt is the key of names, the same for all nodes. When it is another than
	// before, what had a name has none any more.
	Salt [16]byte
	// All is what lasts, at most MaxShared.
	All []Shared
}

// Sharer is a store through which the nodes of a fleet share what each of them would
// else have to ask for. It may forget anything at any time.
type Sharer interface {
	// Share adds what is told, at most MaxShared, each in place of what has its name
	// if it lasts longer, and returns what all share then.
	Share(ctx context.Context, told []Shared) (Sharing, error)
}
