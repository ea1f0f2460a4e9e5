package store

import "context"

const (
	// MaxRegister bounds the text of a register, in bytes.
	MaxRegister = 256 << 10
	// MaxRegisterVersion is the largest version of a register: 2^53 - 1.
	MaxRegisterVersion = 1<<53 - 1
)

// Register is a store that keeps a few texts on which all who share it agree, such as
// what operators have switched. No decision depends on it. A store may lose a register, as
// it may lose buckets: whoever knows what was there puts it back.
type Register interface {
	// ReadRegister returns the text of the register of that name, of 1 to 64 bytes, and
	// its version; version 0 says that there is none. The text is nil where the version
	// is the known one, so that asking often costs little.
	ReadRegister(ctx context.Context, name string, known int64) (version int64, text []byte, err error)
	// ReplaceRegister puts text, at most MaxRegister bytes, into the register as the
	// version to, from 1 to MaxRegisterVersion, if it is still in the version from, 0
	// where there is none; and reports whether it was.
	ReplaceRegister(ctx context.Context, name string, from, to int64, text []byte) (done bool, err error)
}
