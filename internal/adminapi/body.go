package adminapi

import (
	"cmp"
	"net/http"

	"github.com/headgate/headgate/internal/strictjson"
)

// maxSmallBody bounds bodies of a few fields, in bytes.
const maxSmallBody = 16 << 10

// decodeBody reads one JSON object strictly. out points to a struct with a nil for each
// field that may be missing.
func decodeBody(data []byte, out any) *problem {
	if err := strictjson.Decode(data, out); err != nil {
		return malformed(err)
	}
	return nil
}

// malformed is the answer to a body that could not be read.
func malformed(err *strictjson.Error) *problem {
	return badField(cmp.Or(err.Status, http.StatusBadRequest), cmp.Or(err.Path, wholeBody), "%s", err.Problem())
}
