package problems

import (
	"fmt"
	"net/http"
	"runtime/debug"
)

// Recover is deferred by who answers by w: it answers a panic, and tells it with its stack. That
// which ends an answer on purpose, http.ErrAbortHandler, goes on.
func Recover(w http.ResponseWriter, tell func(error)) {
	switch cause := recover(); cause {
	case nil:
	case http.ErrAbortHandler:
		panic(cause)
	default:
		tell(fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
		Write(w, http.StatusInternalServerError, Of(http.StatusInternalServerError, "a bug of Headgate; it is in its log"))
	}
}
