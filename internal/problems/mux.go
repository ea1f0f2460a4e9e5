package problems

import "net/http"

// Mux returns mux with answers of this package for what it has no route for: 404, and 405 with
// the header field Allow. http.ServeMux itself answers those by a line of text.
func Mux(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		heard := &unserved{header: http.Header{}, status: http.StatusNotFound}
		refuse.ServeHTTP(heard, r)
		body := Of(heard.status, "nothing is served at this path")
		if allowed := heard.header.Get("Allow"); allowed != "" {
			w.Header().Set("Allow", allowed)
			body.Detail = "the path is not served by this method; hint: " + allowed
		} else {
			body.Type = NoPath
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		Write(w, heard.status, body)
	})
}

// unserved takes in what http.ServeMux says of a request that it has no route for.
type unserved struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (u *unserved) Header() http.Header { return u.header }

// Write implements http.ResponseWriter. It drops the text.
func (u *unserved) Write(text []byte) (int, error) { return len(text), nil }

// WriteHeader implements http.ResponseWriter.
func (u *unserved) WriteHeader(status int) { u.status = status }
