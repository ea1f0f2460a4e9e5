package app

import (
	"fmt"
	"net/http"
)

// serveHealth adds to mux what probes ask.
func serveHealth(mux *http.ServeMux, h *health) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		r := h.report()
		status := http.StatusOK
		if !r.Ready {
			status = http.StatusServiceUnavailable
		}
		writeJSON(w, status, r)
	})
}

// probes returns the way in of probes, which reach nothing but health; none when it is
// off.
func (p *process) probes() []front {
	if p.settings.HealthAddr == "" {
		return nil
	}
	mux := http.NewServeMux()
	serveHealth(mux, p.health)
	return []front{{name: "health", addr: p.settings.HealthAddr, start: p.gentle("health", newOperatorServer(mux, p.logger))}}
}
