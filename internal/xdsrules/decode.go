package xdsrules

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate/rules/rulefile"
)

// TypeURL is that of the resources.
const TypeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// maxDepth bounds how deep a message is gone through. Rules may be nested less deep than this
// (descriptor.MaxEntries), which package rulefile says at the line of the document.
const maxDepth = 64

// units are the values of RateLimitUnit, the numbers from 1 on.
var units = [...]string{1: "second", 2: "minute", 3: "hour", 4: "day", 5: "month", 6: "year", 7: "week"}

// document is a RateLimitConfig as a rule document. Its fields are 1 name, 2 domain and 3
// descriptors.
type document struct {
	name        string
	Domain      string        `json:"domain"`
	Descriptors []*descriptor `json:"descriptors"`
}

// descriptor is a RateLimitDescriptor: 1 key, 2 value, 3 rate_limit, 4 descriptors, 5
// shadow_mode, 6 detailed_metric, 7 quota_mode, 8 metadata.
type descriptor struct {
	Key            string         `json:"key"`
	Value          string         `json:"value,omitempty"`
	RateLimit      *policy        `json:"rate_limit,omitempty"`
	Descriptors    []*descriptor  `json:"descriptors,omitempty"`
	ShadowMode     bool           `json:"shadow_mode,omitempty"`
	DetailedMetric bool           `json:"detailed_metric,omitempty"`
	QuotaMode      bool           `json:"quota_mode,omitempty"`
	Metadata       map[string]any `json:"metadata,omitempty"`
}

// policy is a RateLimitPolicy: 1 unit, 2 requests_per_unit, 3 unlimited, 4 name, 5 replaces.
type policy struct {
	Unit            string    `json:"unit,omitempty"`
	RequestsPerUnit *uint32   `json:"requests_per_unit,omitempty"`
	Unlimited       bool      `json:"unlimited,omitempty"`
	Name            string    `json:"name,omitempty"`
	Replaces        []replace `json:"replaces,omitempty"`
}

// replace is a RateLimitReplace: 1 name.
type replace struct {
	Name string `json:"name"`
}

// documentsOf returns the rule documents that resources are, in the order of their names,
// which begin with "xds:". An error names the resource.
func documentsOf(resources []*anypb.Any) ([]rulefile.File, error) {
	var files []rulefile.File
	for i, resource := range resources {
		if resource.GetTypeUrl() != TypeURL {
			return nil, fmt.Errorf("resource %d has the type %.100q; hint: %s", i, resource.GetTypeUrl(), TypeURL)
		}
		d := &document{Descriptors: []*descriptor{}}
		if err := d.decode(resource.GetValue()); err != nil {
			return nil, fmt.Errorf("resource %d, %.100q: %w", i, d.name, err)
		}
		data, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("resource %d, %.100q: %w", i, d.name, err)
		}
		files = append(files, rulefile.File{Name: "xds:" + d.name, Data: data})
	}
	slices.SortFunc(files, func(a, b rulefile.File) int { return cmp.Compare(a.Name, b.Name) })
	for i := range files[:max(len(files)-1, 0)] {
		if files[i].Name == files[i+1].Name {
			return nil, fmt.Errorf("two resources are called %.100q", files[i].Name[len("xds:"):])
		}
	}
	return files, nil
}

func (d *document) decode(b []byte) error {
	return eachField(b, func(number protowire.Number, v value) (err error) {
		switch number {
		case 1:
			d.name, err = v.text()
		case 2:
			d.Domain, err = v.text()
		case 3:
			err = appendDescriptor(&d.Descriptors, v, 1)
		}
		return err
	})
}

// appendDescriptor decodes v, at a depth, and appends it.
func appendDescriptor(to *[]*descriptor, v value, depth int) error {
	b, err := v.message()
	if err == nil && depth > maxDepth {
		err = fmt.Errorf("descriptors are nested more than %d deep", maxDepth)
	}
	if err != nil {
		return err
	}
	d := &descriptor{}
	*to = append(*to, d)
	return eachField(b, func(number protowire.Number, v value) (err error) {
		switch number {
		case 1:
			d.Key, err = v.text()
		case 2:
			d.Value, err = v.text()
		case 3:
			d.RateLimit, err = decodePolicy(v)
		case 4:
			err = appendDescriptor(&d.Descriptors, v, depth+1)
		case 5:
			d.ShadowMode, err = v.flag()
		case 6:
			d.DetailedMetric, err = v.flag()
		case 7:
			d.QuotaMode, err = v.flag()
		case 8:
			d.Metadata, err = v.object()
		}
		return err
	})
}

func decodePolicy(v value) (*policy, error) {
	b, err := v.message()
	if err != nil {
		return nil, err
	}
	p, requests, unit := &policy{}, uint64(0), uint64(0)
	err = eachField(b, func(number protowire.Number, v value) (err error) {
		switch number {
		case 1:
			unit, err = v.number()
		case 2:
			requests, err = v.number()
		case 3:
			p.Unlimited, err = v.flag()
		case 4:
			p.Name, err = v.text()
		case 5:
			var r replace
			if r, err = decodeReplace(v); err == nil {
				p.Replaces = append(p.Replaces, r)
			}
		}
		return err
	})
	if err != nil || p.Unlimited {
		return p, err
	}
	if unit < 1 || unit >= uint64(len(units)) {
		return nil, fmt.Errorf("rate_limit: unit %d is none; hint: 1 to %d", unit, len(units)-1)
	}
	count := uint32(requests)
	p.Unit, p.RequestsPerUnit = units[unit], &count
	return p, nil
}

func decodeReplace(v value) (r replace, err error) {
	b, err := v.message()
	if err != nil {
		return r, err
	}
	return r, eachField(b, func(number protowire.Number, v value) (err error) {
		if number == 1 {
			r.Name, err = v.text()
		}
		return err
	})
}

// value is the value of one field in the wire format of protocol buffers.
type value struct {
	kind  protowire.Type
	n     uint64
	bytes []byte
}

var errKind = errors.New("a field has another type than its number says")

// eachField calls do for every field of a message, unknown ones among them.
func eachField(b []byte, do func(protowire.Number, value) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("not a message: %w", protowire.ParseError(n))
		}
		b = b[n:]
		v := value{kind: kind}
		switch kind {
		case protowire.VarintType:
			v.n, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("field %d: %w", number, protowire.ParseError(n))
		}
		b = b[n:]
		if err := do(number, v); err != nil {
			return fmt.Errorf("field %d: %w", number, err)
		}
	}
	return nil
}

func (v value) message() ([]byte, error) {
	if v.kind != protowire.BytesType {
		return nil, errKind
	}
	return v.bytes, nil
}

func (v value) text() (string, error) {
	b, err := v.message()
	if err == nil && !utf8.Valid(b) {
		err = errors.New("not UTF-8")
	}
	return string(b), err
}

func (v value) number() (uint64, error) {
	if v.kind != protowire.VarintType {
		return 0, errKind
	}
	return v.n, nil
}

func (v value) flag() (bool, error) {
	n, err := v.number()
	return n != 0, err
}

// object reads a google.protobuf.Struct.
func (v value) object() (map[string]any, error) {
	b, err := v.message()
	if err != nil {
		return nil, err
	}
	var s structpb.Struct
	if err := proto.Unmarshal(b, &s); err != nil {
		return nil, err
	}
	return s.AsMap(), nil
}
