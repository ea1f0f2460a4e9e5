package tracing

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"

	"github.com/headgate/headgate/internal/otlp"
)

const (
	// retryFor bounds all tries to send a batch: a collector that says it is busy is asked
	// again, one that is not there is not.
	retryFor = 15 * time.Second
	// firstPause and maxPause are between tries.
	firstPause, maxPause = 500 * time.Millisecond, 5 * time.Second
)

// endpointOf reads where spans go.
func endpointOf(raw string) (*otlp.Endpoint, error) {
	to, err := otlp.ParseEndpoint(raw, otlp.TracesPath)
	if err != nil {
		return nil, fmt.Errorf("trace endpoint: %w", err)
	}
	return to, nil
}

// exporterTo returns what sends to an endpoint. All that its environment variables could
// say is said here, so that settings have one place.
func exporterTo(to *otlp.Endpoint) (*otlptrace.Exporter, error) {
	exporter, err := otlptracehttp.New(context.Background(),
		otlptracehttp.WithEndpointURL(to.URL()),
		otlptracehttp.WithHTTPClient(to.Client),
		otlptracehttp.WithHeaders(to.Header()),
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithTimeout(otlp.SendTimeout),
		otlptracehttp.WithMaxResponseSize(otlp.MaxAnswer),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstPause, MaxInterval: maxPause, MaxElapsedTime: retryFor}),
	)
	if err != nil {
		return nil, fmt.Errorf("trace endpoint: %w", to.Told(err))
	}
	return exporter, nil
}
