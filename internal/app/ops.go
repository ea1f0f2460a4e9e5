package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/hostguard"
	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/rulesview"
)

// opsIndex is what GET / of the ops address says.
const opsIndex = `headgate

/metrics        Prometheus metrics
/healthz        200 while the process lives
/readyz         200 while it should get traffic, else 503; the body says why
/stats          the same figures, one line for each
/rules          the rules in force, as JSON
/rlconfig       the same, one line for each limit
/switches       what operators have switched, as JSON
/dual-run       what differs from the old service of --dual-run, as JSON
/v1/explain     POST: how a request would be decided, and why
/debug/pprof/   profiles
`

// opsServer returns the server of the operators' address. Without TLS it answers only to
// hosts by whose names they ask.
func (p *process) opsServer() (*http.Server, error) {
	p.refusals.Serve(refusals.Ops)
	handler := opsHandler(p.health, p.limiter, explained(func() *gate { return p.trust.ops }), p.reportDualRun)
	server := newOperatorServer(handler, p.logger)
	server.WriteTimeout = 0 // a profile takes as long as it was asked to
	if p.settings.SecuresOps() {
		var err error
		server.TLSConfig, err = p.opsTLS("ops")
		return server, err
	}
	server.Handler = hostguard.Handler(p.settings.OpsAddr, p.settings.AllowedHosts, handler, p.refusedHost(refusals.Ops))
	return server, nil
}

// opsHandler serves what operators need. It shows rules and profiles, so that
// its address is not one for clients.
func opsHandler(h *health, limiter *headgate.Limiter, explained http.Handler, dualRun http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h.metrics.Handler(h.logger))
	mux.Handle("GET /stats", h.metrics.Stats())
	serveHealth(mux, h.reported)
	mux.HandleFunc("GET /rules", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, rulesview.Of(limiter.Rules(), time.Now()))
	})
	mux.HandleFunc("GET /rlconfig", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		rulesview.WriteLines(w, limiter.Rules())
	})
	mux.HandleFunc("GET /switches", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, h.switched())
	})
	mux.HandleFunc("GET /dual-run", dualRun)
	mux.Handle("POST /v1/explain", explained)
	// Without /debug/pprof/cmdline: the command line may hold a password.
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, opsIndex)
	})
	return problems.Mux(mux)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	// An error is that of the connection; nobody is there to hear of it.
	_ = encoder.Encode(body)
}
