package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/problems"
)

// MaxBody bounds the body of a request, in bytes.
const MaxBody = 64 << 10

// Handler answers POST /v1/explain for operators: to a request as POST /v1/check takes it
// (domain, descriptors, attributes), with a view.Explanation. It shows what others have
// used of their limits, so it is not for clients.
func Handler(limiter Limiter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			refuse(w, http.StatusMethodNotAllowed, "what is to be explained is sent by POST")
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("body: more than %d bytes", MaxBody))
			return
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, "body: it could not be read")
			return
		}
		req, bad := Decode(body)
		if bad != nil {
			refuse(w, http.StatusBadRequest, bad.Error(), *bad)
			return
		}
		e, err := Request(r.Context(), limiter, req)
		if errors.As(err, new(*headgate.RightsError)) {
			refuse(w, http.StatusForbidden, err.Error())
			return
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		guard(w.Header())
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(e) // an error is that of a client who has gone
	})
}

func refuse(w http.ResponseWriter, status int, detail string, fields ...FieldError) {
	guard(w.Header())
	problems.Write(w, status, refusal{Body: problems.Of(status, detail), Errors: fields})
}

// guard keeps browsers from guessing what an answer is, and everybody from keeping it.
func guard(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}
