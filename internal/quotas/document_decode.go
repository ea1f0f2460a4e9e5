package quotas

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"

	"github.com/headgate/headgate/internal/strictjson"
)

// decode reads one JSON value strictly. Its errors are *FieldError and name the field
// where there is one.
func decode(data []byte, out any) error {
	err := strictjson.Decode(data, out)
	if err == nil {
		return nil
	}
	return &FieldError{Field: err.Path, Problem: err.Problem()}
}

// decodeKept is decode for a line that this program has written, of which there may be
// ten million: it is read once, and what is wrong with it is told by decode.
func decodeKept(data []byte, out any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(out)
	if err == nil {
		if _, after := decoder.Token(); errors.Is(after, io.EOF) {
			return nil
		}
	}
	return cmp.Or(decode(data, out), err)
}
