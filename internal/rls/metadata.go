package rls

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate"
)

// dynamicMetadata encodes what envoyproxy/ratelimit tells in dynamic_metadata:
// the request as it came, and the metadata of the rules that were not over
// their limit. It holds the values of the descriptors in the clear.
func dynamicMetadata(m *message, req *headgate.Request, statuses []descriptorStatus, resp *headgate.Response) []byte {
	descriptors := make([]any, len(m.descriptors))
	for i := range m.descriptors {
		descriptors[i] = m.metadataOf(i)
	}
	told := map[string]any{
		"domain":      req.Domain,
		"descriptors": descriptors,
	}
	if m.hitsAddend != 0 {
		told["hitsAddend"] = float64(m.hitsAddend)
	}
	if rules := rulesMetadata(statuses, resp); len(rules) > 0 {
		told["metadata"] = rules
	}
	encoded, err := proto.Marshal(structOf(told))
	if err != nil {
		// Only text that is not UTF-8 ends here, and rules refuse that. A
		// decision is not held up for its decoration.
		return nil
	}
	return encoded
}

// metadataOf tells descriptor i as it came.
func (m *message) metadataOf(i int) map[string]any {
	d := &m.descriptors[i]
	entries := make([]any, 0, d.to-d.from)
	for _, e := range m.entries[d.from:d.to] {
		entries = append(entries, e.Key+"="+e.Value)
	}
	told := map[string]any{"entries": entries}
	if d.hasLimit {
		told["limit"] = d.override.String()
	}
	if d.hasHits {
		told["hitsAddend"] = float64(d.hits)
	}
	return told
}

// String returns the text form of the protobuf message.
func (o override) String() string {
	unit := [...]string{"UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"}[o.unit]
	text := fmt.Sprintf("requests_per_unit:%d unit:%s", o.requests, unit)
	if o.hasMultiplier {
		text += fmt.Sprintf(" unit_multiplier:{value:%d}", o.multiplier)
	}
	return text
}

// rulesMetadata merges the metadata of the rules that decided a descriptor which
// is not over its limit. Of one name the first value wins; maps are merged.
func rulesMetadata(statuses []descriptorStatus, resp *headgate.Response) map[string]any {
	merged := map[string]any{}
	for i := range resp.Verdicts {
		v := &resp.Verdicts[i]
		if v.Limit == nil || v.Rule == nil || statuses[v.Descriptor].code == codeOverLimit {
			continue
		}
		mergeMetadata(merged, v.Rule.Metadata)
	}
	return merged
}

// mergeMetadata adds to dst what src has and dst has not. It never changes a map
// of src, which belongs to a rule.
func mergeMetadata(dst, src map[string]any) {
	for name, value := range src {
		have, taken := dst[name]
		nested, isMap := value.(map[string]any)
		switch {
		case !taken && isMap:
			copied := map[string]any{}
			mergeMetadata(copied, nested)
			dst[name] = copied
		case !taken:
			dst[name] = value
		case isMap:
			if into, ok := have.(map[string]any); ok {
				mergeMetadata(into, nested)
			}
		}
	}
}

// structOf converts m to protobuf. A value that has no form there becomes text.
func structOf(m map[string]any) *structpb.Struct {
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(m))}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		s.Fields[name] = valueOf(m[name])
	}
	return s
}

func valueOf(v any) *structpb.Value {
	switch v := v.(type) {
	case map[string]any:
		return structpb.NewStructValue(structOf(v))
	case []any:
		list := &structpb.ListValue{Values: make([]*structpb.Value, len(v))}
		for i := range v {
			list.Values[i] = valueOf(v[i])
		}
		return structpb.NewListValue(list)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return structpb.NewStringValue(fmt.Sprint(v))
		}
		return structpb.NewNumberValue(v)
	}
	value, err := structpb.NewValue(v)
	if err != nil {
		return structpb.NewStringValue(fmt.Sprint(v))
	}
	return value
}
