package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
)

const (
	jsonType    = "application/json"
	problemType = "application/problem+json"
)

// problem is the body of every answer that is an error (RFC 9457), as the admin API has
// it.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func fail(status int, format string, args ...any) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

func (p *problem) write(w http.ResponseWriter) { writeJSON(w, p.Status, problemType, p) }

// notAllowed answers a request whose method is none of allowed.
func notAllowed(w http.ResponseWriter, allowed string) {
	w.Header().Set("Allow", allowed)
	fail(http.StatusMethodNotAllowed, "the method is none of %s", allowed).write(w)
}

func writeJSON(w http.ResponseWriter, status int, kind string, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings, integers and times only
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // nobody is there to hear of an error
}
