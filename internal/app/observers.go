package app

import (
	"log/slog"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/telemetry"
)

// observers are told of every decision, in their order.
type observers struct {
	metrics *telemetry.Metrics
	rest    each
	logger  *slog.Logger
	// panicked, when not nil, is told of decisions that ended by a bug.
	panicked func()
}

// Decided implements headgate.Observer.
func (o *observers) Decided(request *headgate.Request, response *headgate.Response, took time.Duration) {
	o.metrics.Decided(request, response, took)
	o.rest.Decided(request, response, took)
}

// each are observers that are told in their order.
type each []headgate.Observer

// Decided implements headgate.Observer.
func (e each) Decided(request *headgate.Request, response *headgate.Response, took time.Duration) {
	for _, other := range e {
		other.Decided(request, response, took)
	}
}

// Panicked implements headgate.PanicObserver.
func (o *observers) Panicked(err error) {
	o.metrics.Panicked(err)
	if o.panicked != nil {
		o.panicked()
	}
	o.logger.Error("a panic was caught; failure modes answered", "error", err)
}
