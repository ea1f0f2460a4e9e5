package adminapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// maxSmallBody bounds bodies of a few fields, in bytes.
const maxSmallBody = 16 << 10

// decodeBody reads one JSON object without unknown fields. out points to a struct with
// a null for each field that may be missing.
func decodeBody(data []byte, out any) *problem {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(out)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		field := kind.Field
		if field == "" {
			field = wholeBody
		}
		return badField(http.StatusBadRequest, field, "%s is not %v", kind.Value, kind.Type)
	case err != nil:
		if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
			return badField(http.StatusBadRequest, m[1], "no such field")
		}
		return badField(http.StatusBadRequest, wholeBody, "%v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return badField(http.StatusBadRequest, wholeBody, "more than one JSON value")
	}
	return nil
}
