package sqltenant

import "errors"

var (
	// ErrInvalid is wrapped by the error of a change that cannot be, and of what
	// somebody else has written and cannot be.
	ErrInvalid = errors.New("invalid")
	// ErrConflict says that the account or the document is not in the version that a
	// change was made for.
	ErrConflict = errors.New("it has changed since")
)
