package rls

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"strings"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/openapi"
	"github.com/headgate/headgate/limit"
)

// DescribeJSON returns what an OpenAPI document says of /json, which is Envoy's messages as
// proto3 JSON has them: of the request all of their fields, of the answer those that
// are ever set.
func DescribeJSON() openapi.Part {
	read := reader{openapi.Schema{}, true}
	read.message((&rlsv3.RateLimitRequest{}).ProtoReflect().Descriptor())
	written := reader{openapi.Schema{}, false}
	written.message((&rlsv3.RateLimitResponse{}).ProtoReflect().Descriptor())
	part := openapi.Part{Paths: openapi.Schema{}, Schemas: read.schemas}
	part.Add(openapi.Part{Paths: openapi.Schema{"/json": openapi.Schema{"post": operationJSON.Object()}}, Schemas: written.schemas})
	return part
}

var operationJSON = openapi.Operation{
	ID: "rateLimitRequest", Summary: "Decide Envoy's RateLimitRequest, as envoyproxy/ratelimit does; any method will do",
	Body: openapi.Ref("RateLimitRequest"),
	Answers: map[int]openapi.Answer{
		http.StatusOK:                    {About: "It may pass.", Content: map[string]openapi.Schema{"application/json": openapi.Ref("RateLimitResponse")}},
		http.StatusTooManyRequests:       {About: "A limit is used up.", Content: map[string]openapi.Schema{"application/json": openapi.Ref("RateLimitResponse")}},
		http.StatusBadRequest:            inWords("Not JSON, an unknown member, a value out of range."),
		http.StatusUnauthorized:          inWords("Callers need a token or a certificate, and this one has shown none that is good."),
		http.StatusForbidden:             {About: "The caller has no right to this, or a browser sent it from another site: that alone is a problem.", Content: map[string]openapi.Schema{textPlain: {"type": "string"}, "application/problem+json": openapi.Ref("Problem")}},
		http.StatusConflict:              inWords("The id belongs to another check."),
		http.StatusRequestEntityTooLarge: inWords("More than a message may have."),
		http.StatusInternalServerError:   inWords("A bug."),
		http.StatusNotImplemented:        inWords("Ids, with a store that remembers no answers."),
		http.StatusServiceUnavailable:    inWords("The store did not answer, and the rule fails closed."),
	},
}

const textPlain = "text/plain; charset=utf-8"

// inWords is an answer that is a line of text, as envoyproxy/ratelimit has them.
func inWords(about string) openapi.Answer {
	return openapi.Answer{About: about, Content: map[string]openapi.Schema{textPlain: {"type": "string"}}}
}

// set are the fields of messages of the answer that are ever set. Of others all are.
var set = map[protoreflect.Name][]protoreflect.FieldNumber{
	"RateLimitResponse": {responseOverallCode, responseStatuses, responseHeaders, responseRequestHeaders, responseRawBody, responseDynamicMetadata},
	"DescriptorStatus":  {statusCode, statusCurrentLimit, statusRemaining, statusReset},
	"HeaderValue":       {headerKey, headerValue},
}

// shapes are what the messages do not say of their fields, by message and field.
var shapes = map[string]openapi.Schema{
	"RateLimitRequest.domain":                   {"minLength": 1, "description": "The namespace of the rules."},
	"RateLimitRequest.descriptors":              {"minItems": 1, "maxItems": descriptor.MaxDescriptors, "description": "What the request is limited on."},
	"RateLimitRequest.hits_addend":              openapi.Said("What the request costs; 0 is 1."),
	"RateLimitDescriptor.entries":               {"maxItems": descriptor.MaxEntries},
	"RateLimitDescriptor.limit":                 openapi.Said("A limit that the caller names in place of that of the rules; it takes the right to."),
	"RateLimitDescriptor.hits_addend":           {"maximum": int64(limit.MaxQuota), "description": "What the request costs here, in place of that of the request. 0 is a peek."},
	"RateLimitDescriptor.is_negative_hits":      openapi.Said("The hits are given back; it takes the right to."),
	"Entry.key":                                 {"minLength": 1},
	"RateLimitOverride.unit":                    {"enum": units(unitSecond, unitYear)},
	"RateLimitOverride.unit_multiplier":         {"minimum": 1, "maximum": int64(limit.MaxPeriod / time.Second), "description": "How many units the window has. It is at most 366 days long."},
	"RateLimitResponse.overall_code":            {"enum": []string{"OK", "OVER_LIMIT"}},
	"RateLimitResponse.statuses":                openapi.Said("One for each descriptor, in their order. One that no rule matches has a code and nothing more."),
	"DescriptorStatus.code":                     {"enum": []string{"OK", "OVER_LIMIT"}},
	"DescriptorStatus.limit_remaining":          openapi.Said("Hits that would pass now. Left out where it is 0, as every number is."),
	"DescriptorStatus.duration_until_reset":     openapi.Said("Until the window ends or all may be used again."),
	"RateLimitResponse.raw_body":                openapi.Said("What a client that is kept out is told."),
	"RateLimitResponse.dynamic_metadata":        openapi.Said("What the proxy may log."),
	"RateLimit.unit":                            openapi.Said("Left out where the window is not of whole seconds."),
	"RateLimit.unit_multiplier":                 openapi.Said("How many units the window has; left out, it is one."),
	"RateLimitResponse.response_headers_to_add": openapi.Said("What the proxy adds to the answer to its client."),
	"RateLimitResponse.request_headers_to_add":  openapi.Said("What the proxy adds to the request that it passes on."),
}

// needed are fields without which a request is refused.
var needed = map[string]bool{"RateLimitRequest.domain": true, "RateLimitRequest.descriptors": true, "RateLimitDescriptor.entries": true, "Entry.key": true, "RateLimitOverride.unit": true}

// units are the names of units from one number to another.
func units(from, to int32) (names []string) {
	all := unitsOfOverrides.Values()
	for n := from; n <= to; n++ {
		names = append(names, string(all.ByNumber(protoreflect.EnumNumber(n)).Name()))
	}
	return names
}

// unitsOfOverrides are those of a limit that callers name.
var unitsOfOverrides = (&commonv3.RateLimitDescriptor_RateLimitOverride{}).ProtoReflect().Descriptor().Fields().ByName("unit").Enum()

// reader makes schemas of messages as they are read, or as they are written.
type reader struct {
	schemas openapi.Schema
	// reads says that fields have both of their names, and large numbers may be text.
	reads bool
}

// message returns the schema of a message, which is in schemas then.
func (r *reader) message(m protoreflect.MessageDescriptor) openapi.Schema {
	name := strings.ReplaceAll(strings.TrimPrefix(string(m.FullName()), string(m.ParentFile().Package())+"."), ".", "")
	if r.schemas[name] != nil {
		return openapi.Ref(name)
	}
	properties, required, never := openapi.Schema{}, []string{}, []any{}
	object := openapi.Schema{"type": "object", "properties": properties, "additionalProperties": false, "description": fmt.Sprintf("Envoy's %s.", m.FullName())}
	r.schemas[name] = object
	for _, f := range r.fields(m) {
		at := fmt.Sprintf("%s.%s", m.Name(), f.Name())
		s := r.field(f)
		maps.Copy(s, shapes[at])
		properties[f.JSONName()] = s
		if plain := string(f.Name()); r.reads && plain != f.JSONName() {
			properties[plain] = s
			never = append(never, openapi.Both(f.JSONName(), plain))
		}
		if needed[at] {
			required = append(required, f.JSONName())
		}
	}
	if len(required) > 0 {
		object["required"] = required
	}
	if len(never) > 0 {
		object["not"] = openapi.Schema{"anyOf": never}
	}
	return openapi.Ref(name)
}

// fields are those of m that are read, or ever written.
func (r *reader) fields(m protoreflect.MessageDescriptor) (fields []protoreflect.FieldDescriptor) {
	if only := set[m.Name()]; only != nil && !r.reads {
		for _, n := range only {
			fields = append(fields, m.Fields().ByNumber(n))
		}
		return fields
	}
	for i := range m.Fields().Len() {
		fields = append(fields, m.Fields().Get(i))
	}
	return fields
}

// field returns the schema of a field.
func (r *reader) field(f protoreflect.FieldDescriptor) openapi.Schema {
	s := r.value(f)
	if f.IsList() {
		return openapi.Schema{"type": "array", "items": s}
	}
	return s
}

// value returns the schema of one value of a field, by the rules of proto3 JSON.
func (r *reader) value(f protoreflect.FieldDescriptor) openapi.Schema {
	switch f.Kind() {
	case protoreflect.StringKind:
		return openapi.Schema{"type": "string"}
	case protoreflect.BoolKind:
		return openapi.Schema{"type": "boolean"}
	case protoreflect.BytesKind:
		return openapi.Schema{"type": "string", "contentEncoding": "base64"}
	case protoreflect.Uint32Kind:
		return openapi.Schema{"type": "integer", "minimum": 0, "maximum": uint32(math.MaxUint32)}
	case protoreflect.Uint64Kind:
		return openapi.Schema{"type": []string{"integer", "string"}, "minimum": 0, "pattern": "^[0-9]+$"}
	case protoreflect.EnumKind:
		var names []string
		for i := range f.Enum().Values().Len() {
			names = append(names, string(f.Enum().Values().Get(i).Name()))
		}
		return openapi.Schema{"type": "string", "enum": names}
	case protoreflect.MessageKind:
		switch m := f.Message(); m.FullName() {
		case "google.protobuf.UInt32Value", "google.protobuf.UInt64Value":
			return r.value(m.Fields().ByNumber(wrapperValue))
		case "google.protobuf.Duration":
			return openapi.Schema{"type": "string", "pattern": `^[0-9]+(\.[0-9]{1,9})?s$`}
		case "google.protobuf.Struct":
			return openapi.Schema{"type": "object"}
		default:
			return r.message(m)
		}
	}
	panic(fmt.Sprintf("%s is of a kind that the API did not have", f.FullName()))
}
