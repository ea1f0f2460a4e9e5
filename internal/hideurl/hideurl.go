// Package hideurl removes addresses, which may contain secrets, from the errors of calls.
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
