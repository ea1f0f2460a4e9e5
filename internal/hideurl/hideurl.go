// Package hideurl takes addresses, which may hold secrets, out of what is said of calls that failed.
package hideurl

import (
	"errors"
	"net/url"
)

// In returns an error of net/http without the method and the address of the call. Who tells of it
// says whom they asked.
func In(err error) error {
	if call, ok := errors.AsType[*url.Error](err); ok {
		return call.Err
	}
	return err
}
