package httpanswer

import (
	"net/http"
	"strconv"
	"strings"
)

// Fault is what a client is told of a request that nobody decided. Nothing in Code and
// Message needs escaping.
type Fault struct {
	Status        int
	Code, Message string
}

// AppendBody appends a body of the shape that denials have, with a line end.
func (f *Fault) AppendBody(dst []byte, b Body) []byte {
	switch b {
	case Flat:
		dst = append(dst, `{"error":"`...)
		dst = append(dst, strings.ToLower(f.Code)...)
		dst = append(dst, `","message":"`...)
		dst = append(dst, f.Message...)
		return append(dst, "\"}\n"...)
	case Problem:
		dst = append(dst, `{"type":"about:blank","title":`...)
		dst = AppendJSONString(dst, http.StatusText(f.Status))
		dst = append(dst, `,"status":`...)
		dst = strconv.AppendInt(dst, int64(f.Status), 10)
		dst = append(dst, `,"detail":"`...)
		dst = append(dst, f.Message...)
		return append(dst, "\"}\n"...)
	default:
		dst = append(dst, `{"error":{"code":"`...)
		dst = append(dst, f.Code...)
		dst = append(dst, `","message":"`...)
		dst = append(dst, f.Message...)
		return append(dst, "\"}}\n"...)
	}
}
