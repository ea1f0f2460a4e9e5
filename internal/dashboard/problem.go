package dashboard

import (
	"fmt"
	"net/http"

	"github.com/headgate/headgate/internal/problems"
)

// The media types of what is sent: rules are YAML.
const (
	jsonType = "application/json"
	yamlType = "application/yaml"
)

// problem is the body of every answer that is an error, as the admin API has it.
type problem struct{ problems.Body }

func fail(status int, format string, args ...any) *problem {
	return &problem{problems.Of(status, fmt.Sprintf(format, args...))}
}

func (p *problem) write(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	problems.Write(w, p.Status, p)
}

// notAllowed answers a request whose method is none of allowed.
func notAllowed(w http.ResponseWriter, allowed string) {
	w.Header().Set("Allow", allowed)
	fail(http.StatusMethodNotAllowed, "the method is none of %s", allowed).write(w)
}

// writeJSON answers 200 with body.
func writeJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Cache-Control", "no-store")
	problems.WriteAs(w, jsonType, http.StatusOK, body)
}
