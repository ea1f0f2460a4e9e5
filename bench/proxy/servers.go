package main

import (
	"net/http"
	"net/http/httputil"
	"net/url"
)

// answer is what the backend says.
var answer = []byte(`{"orders":[{"id":"o_1","state":"paid"},{"id":"o_2","state":"open"}],"next":null}`)

func serveBackend(addr string) error {
	return http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
}

// serveBare serves a reverse proxy with nothing but what it needs: as its
// documentation shows it, with as many idle connections as there is load.
func serveBare(addr, backend string) error {
	to := &url.URL{Scheme: "http", Host: backend}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 1024
	return http.ListenAndServe(addr, &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.SetXForwarded()
			r.Out.Host = r.In.Host
		},
	})
}
