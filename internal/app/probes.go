package app

import (
	"fmt"
	"net/http"

	"github.com/headgate/headgate/internal/problems"
)

// serveHealth adds to mux what probes ask; ready answers whether the process is ready.
func serveHealth(mux *http.ServeMux, ready http.HandlerFunc) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", ready)
}

// statusOf is the status of an answer to who asks whether the process is ready.
func statusOf(ready bool) int {
	if ready {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// readiness is all that probes hear: their address may be one that anybody reaches.
func (h *health) readiness(w http.ResponseWriter, _ *http.Request) {
	ready := h.ready() == nil
	writeJSON(w, statusOf(ready), struct {
		Ready bool `json:"ready"`
	}{ready})
}

// reported answers operators with all that is known: names of files, servers and accounts'
// databases stand in it.
func (h *health) reported(w http.ResponseWriter, _ *http.Request) {
	r := h.report()
	writeJSON(w, statusOf(r.Ready), r)
}

// scrapes returns the way in of Prometheus, which reaches nothing but metrics; none when it
// is off.
func (p *process) scrapes() ([]front, error) {
	if p.settings.MetricsAddr == "" {
		return nil, nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+p.settings.MetricsPath, p.health.metrics.Handler(p.logger))
	server := newOperatorServer(problems.Mux(mux), p.logger)
	if p.settings.SecuresMetrics() {
		var err error
		if server.TLSConfig, err = p.opsTLS("metrics"); err != nil {
			return nil, err
		}
	}
	return []front{{name: "metrics", addr: p.settings.MetricsAddr, start: p.gentle("metrics", server)}}, nil
}

// probes returns the way in of probes, which reach nothing but health; none when it is
// off.
func (p *process) probes() []front {
	if p.settings.HealthAddr == "" {
		return nil
	}
	mux := http.NewServeMux()
	serveHealth(mux, p.health.readiness)
	return []front{{name: "health", addr: p.settings.HealthAddr, start: p.gentle("health", newOperatorServer(problems.Mux(mux), p.logger))}}
}
