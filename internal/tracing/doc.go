// Package tracing makes a span of each decision whose caller records a trace, and sends it
// to a collector by OTLP over HTTP (OpenTelemetry Protocol 1.x, protobuf). It is the only
// package that knows OpenTelemetry.
//
// # Which decisions
//
// The caller decides (W3C Trace Context): a request whose trace is recorded gets a span as
// the child of the one it names, a request whose trace is not recorded gets none. Of
// requests that bring no trace Options.Ratio begin one. That is OpenTelemetry's sampler
// ParentBased(TraceIDRatioBased), done before anything is made, so that a decision which
// is not recorded costs nanoseconds.
//
// # What a span holds
//
// The span is "headgate.check", of kind internal, from when the decision began to when it
// was made. OpenTelemetry has no conventions for rate limits; attributes are
// headgate.domain, headgate.outcome, headgate.rule, headgate.limit_name,
// headgate.remaining, headgate.degraded, headgate.op and headgate.decision_id; see
// docs/tracing.md. No span holds a key, an address, or what a client calls itself. A
// denial is no error, nor is a store that does not answer: the status of a span is set
// only where Headgate itself is at fault.
//
// # Losing spans
//
// Spans wait in a queue of fixed size for one goroutine, which sends them in batches. No
// decision waits for it: a span that finds the queue full is dropped, a batch that the
// collector does not take is lost, and both are counted.
package tracing
