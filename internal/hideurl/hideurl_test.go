package hideurl

import (
	"errors"
	"fmt"
	"net/url"
	"testing"
)

// TestIn: the address goes, however deep the error stands, and others stay.
func TestIn(t *testing.T) {
	inner := errors.New("away")
	call := &url.Error{Op: "Get", URL: "https://x/?token=secret", Err: inner}
	for _, c := range []struct{ err, want error }{{call, inner}, {fmt.Errorf("ask: %w", call), inner}, {inner, inner}, {nil, nil}} {
		if got := In(c.err); got != c.want {
			t.Errorf("In(%v) = %v, want %v", c.err, got, c.want)
		}
	}
}
