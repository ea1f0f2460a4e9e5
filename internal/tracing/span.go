package tracing

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/cut"
	"github.com/headgate/headgate/store"
)

const spanName = "headgate.check"

// The attributes of a span.
const (
	domainKey     = attribute.Key("headgate.domain")
	outcomeKey    = attribute.Key("headgate.outcome")
	opKey         = attribute.Key("headgate.op") // but a hit
	ruleKey       = attribute.Key("headgate.rule")
	limitNameKey  = attribute.Key("headgate.limit_name")
	remainingKey  = attribute.Key("headgate.remaining")
	degradedKey   = attribute.Key("headgate.degraded")
	decisionIDKey = attribute.Key("headgate.decision_id")
)

// describe sets the attributes of a span, and its status where Headgate is at fault.
func describe(span trace.Span, req *headgate.Request, resp *headgate.Response) {
	var buffer [8]attribute.KeyValue
	attributes := append(buffer[:0], domainKey.String(text(req.Domain)), outcomeKey.String(outcomeOf(resp)))
	if op := opOf(req); op != "" {
		attributes = append(attributes, opKey.String(op))
	}
	if v := resp.Speaker(); v != nil {
		if v.Rule != nil {
			attributes = append(attributes, ruleKey.String(text(v.Rule.ID)))
		}
		if v.Name != "" {
			attributes = append(attributes, limitNameKey.String(text(v.Name)))
		}
		if v.Counted() {
			attributes = append(attributes, remainingKey.Int64(v.Decision.Remaining))
		}
	}
	if reason := resp.Degraded(); reason != store.NoReason {
		attributes = append(attributes, degradedKey.String(string(reason)))
		if reason == store.Internal {
			span.SetStatus(codes.Error, "a bug of Headgate; its log has the stack")
		}
	}
	if !resp.ID.IsZero() {
		attributes = append(attributes, decisionIDKey.String(resp.ID.String()))
	}
	span.SetAttributes(attributes...)
}

// outcomeOf is what headgate_requests_total counts the request as.
func outcomeOf(resp *headgate.Response) string {
	degraded := resp.Degraded() != store.NoReason
	switch {
	case len(resp.Verdicts) == 0 && !resp.DomainKnown:
		return "unknown_domain"
	case len(resp.Verdicts) == 0:
		return "unmatched"
	case degraded && resp.Allowed:
		return "degraded_allowed"
	case degraded:
		return "degraded_denied"
	case resp.Allowed:
		return "allowed"
	default:
		return "denied"
	}
}

// opOf names what was asked for, "" for a hit.
func opOf(req *headgate.Request) string {
	if len(req.Descriptors) == 0 || req.Descriptors[0].Op == store.Hit {
		return ""
	}
	return req.Descriptors[0].Op.String()
}

// maxText bounds an attribute in bytes.
const maxText = 256

// text returns a copy of s, bounded and valid: OTLP has no other strings.
func text(s string) string {
	return strings.Clone(strings.ToValidUTF8(cut.Text(s, maxText), "\ufffd"))
}

// resourceOf says who makes the spans, by OpenTelemetry's conventions for services.
func resourceOf(o *Options) *resource.Resource {
	return resource.NewSchemaless(
		attribute.String("service.name", "headgate"),
		attribute.String("service.version", text(o.Version)),
		attribute.String("service.instance.id", text(o.Node)),
	)
}
