package app

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// Bounds of HTTP connections. A check is a small body and an immediate answer.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 15 * time.Second // both begin together; a body that never ends gets its answer
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10
	maxHTTP2Streams   = 1000
)

// newHTTPServer returns a server of HTTP/1.1 and, without TLS too, of HTTP/2.
func newHTTPServer(handler http.Handler, logger *slog.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           handler,
		Protocols:         &protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxHTTP2Streams},
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
}

// newOperatorServer is newHTTPServer for operators. Their tools speak HTTP/1.1 where
// there is no TLS.
func newOperatorServer(handler http.Handler, logger *slog.Logger) *http.Server {
	s := newHTTPServer(handler, logger)
	s.Protocols.SetUnencryptedHTTP2(false)
	return s
}

// closing asks the clients of HTTP/1.1 to open a new connection after the next
// answer once draining is set. A connection that is closed while it is idle
// may be closed just as a request is on its way; one that is closed after an
// answer is not. One that asks for another protocol is told by that protocol, if at
// all.
func closing(draining *atomic.Bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if draining.Load() && r.ProtoMajor == 1 && len(r.Header["Upgrade"]) == 0 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
