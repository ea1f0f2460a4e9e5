package middleware

import (
	"fmt"
	"net/http"

	"github.com/headgate/headgate/httplimit"
)

// netHTTP limits a whole ServeMux.
func netHTTP(limits *httplimit.Middleware) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "order ", r.PathValue("id"))
	})
	mux.HandleFunc("GET /broken", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "broken", http.StatusInternalServerError)
	})
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	return limits.Wrap(mux)
}
