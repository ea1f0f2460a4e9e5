package middleware

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/httplimit"
)

// withChi limits a chi router: its middleware is of the same type.
func withChi(limits *httplimit.Middleware) http.Handler {
	r := chi.NewRouter()
	r.Use(limits.Wrap)
	r.Get("/orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "order ", chi.URLParam(r, "id"))
	})
	r.Get("/broken", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "broken", http.StatusInternalServerError)
	})
	r.Get("/healthz", func(http.ResponseWriter, *http.Request) {})
	return r
}
