package sqltenant

import "errors"

var (
	// ErrInvalid is wrapped by the error of a change that cannot be.
	ErrInvalid = errors.New("invalid account")
	// ErrConflict says that the account is not in the version that a change was
	// made for.
	ErrConflict = errors.New("the account has changed since")
)
