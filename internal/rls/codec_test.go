package rls

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/descriptor"
)

// generated converts what the hand-written decoder read to the generated type.
func (m *message) generated() *rlsv3.RateLimitRequest {
	req := &rlsv3.RateLimitRequest{Domain: m.domain, HitsAddend: m.hitsAddend}
	for _, d := range m.descriptors {
		g := &ratelimitv3.RateLimitDescriptor{IsNegativeHits: d.negative}
		for _, e := range m.entries[d.from:d.to] {
			g.Entries = append(g.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
		}
		if d.hasHits {
			g.HitsAddend = wrapperspb.UInt64(d.hits)
		}
		if d.hasLimit {
			g.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{
				RequestsPerUnit: d.override.requests,
				Unit:            typev3.RateLimitUnit(d.override.unit),
			}
			if d.override.hasMultiplier {
				g.Limit.UnitMultiplier = wrapperspb.UInt32(d.override.multiplier)
			}
		}
		req.Descriptors = append(req.Descriptors, g)
	}
	return req
}

// generated converts an answer to the generated type.
func (a *answer) generated() *rlsv3.RateLimitResponse {
	resp := &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_Code(a.overall)}
	for _, s := range a.statuses {
		g := &rlsv3.RateLimitResponse_DescriptorStatus{
			Code:           rlsv3.RateLimitResponse_Code(s.code),
			LimitRemaining: s.remaining,
		}
		if l := s.currentLimit; l.present {
			g.CurrentLimit = &rlsv3.RateLimitResponse_RateLimit{
				Name:            l.name,
				RequestsPerUnit: l.requests,
				Unit:            rlsv3.RateLimitResponse_RateLimit_Unit(l.unit),
			}
			if l.multiplier > 1 {
				g.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(l.multiplier)
			}
			g.DurationUntilReset = &durationpb.Duration{Seconds: s.resetSeconds}
		}
		resp.Statuses = append(resp.Statuses, g)
	}
	for _, h := range a.headers {
		resp.ResponseHeadersToAdd = append(resp.ResponseHeadersToAdd, &corev3.HeaderValue{Key: h.key, Value: h.value})
	}
	for _, h := range a.requestHeaders {
		resp.RequestHeadersToAdd = append(resp.RequestHeadersToAdd, &corev3.HeaderValue{Key: h.key, Value: h.value})
	}
	return resp
}

// sameDecode demands that b is accepted or refused, and read, as the generated
// code does it.
func sameDecode(t rapid.TB, b []byte) {
	t.Helper()
	var want rlsv3.RateLimitRequest
	wantErr := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, &want)
	var got message
	gotErr := got.decode(b, string(b))
	if (gotErr == nil) != (wantErr == nil) {
		t.Fatalf("decode %x: %v, generated code: %v", b, gotErr, wantErr)
	}
	if wantErr != nil {
		return
	}
	entries := 0
	for _, d := range want.Descriptors {
		entries += len(d.Entries)
	}
	if got.descriptorCount != len(want.Descriptors) || got.entryCount != entries {
		t.Fatalf("decode %x: %d descriptors, %d entries; want %d, %d", b, got.descriptorCount, got.entryCount, len(want.Descriptors), entries)
	}
	if got.descriptorCount > descriptor.MaxDescriptors || got.entryCount > maxEntries {
		return // counted, not kept
	}
	if g := got.generated(); !proto.Equal(g, &want) {
		t.Fatalf("decode %x:\n%s", b, cmp.Diff(&want, g, protocmp.Transform()))
	}
}

// requests generates requests that use every field.
func requests() *rapid.Generator[*rlsv3.RateLimitRequest] {
	entry := rapid.Custom(func(t *rapid.T) *ratelimitv3.RateLimitDescriptor_Entry {
		return &ratelimitv3.RateLimitDescriptor_Entry{
			Key:   rapid.String().Draw(t, "key"),
			Value: rapid.String().Draw(t, "value"),
		}
	})
	one := rapid.Custom(func(t *rapid.T) *ratelimitv3.RateLimitDescriptor {
		d := &ratelimitv3.RateLimitDescriptor{
			Entries:        rapid.SliceOfN(entry, 0, 4).Draw(t, "entries"),
			IsNegativeHits: rapid.Bool().Draw(t, "negative"),
		}
		if rapid.Bool().Draw(t, "has hits") {
			d.HitsAddend = wrapperspb.UInt64(rapid.Uint64().Draw(t, "hits"))
		}
		if rapid.Bool().Draw(t, "has limit") {
			d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{
				RequestsPerUnit: rapid.Uint32().Draw(t, "requests"),
				Unit:            typev3.RateLimitUnit(rapid.Int32().Draw(t, "unit")),
			}
			if rapid.Bool().Draw(t, "has multiplier") {
				d.Limit.UnitMultiplier = wrapperspb.UInt32(rapid.Uint32().Draw(t, "multiplier"))
			}
		}
		return d
	})
	return rapid.Custom(func(t *rapid.T) *rlsv3.RateLimitRequest {
		return &rlsv3.RateLimitRequest{
			Domain:      rapid.String().Draw(t, "domain"),
			Descriptors: rapid.SliceOfN(one, 0, 4).Draw(t, "descriptors"),
			HitsAddend:  rapid.Uint32().Draw(t, "hits"),
		}
	})
}

func TestDecodeReadsWhatTheGeneratedCodeWrites(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b, err := proto.Marshal(requests().Draw(r, "request"))
		if err != nil {
			r.Fatal(err)
		}
		sameDecode(r, b)
	})
}

func TestDecodeMergesConcatenatedMessages(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var b []byte
		for range rapid.IntRange(2, 4).Draw(r, "messages") {
			part, err := proto.Marshal(requests().Draw(r, "request"))
			if err != nil {
				r.Fatal(err)
			}
			b = append(b, part...)
		}
		sameDecode(r, b)
	})
}

func TestDecodeOfDamagedMessages(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b, err := proto.Marshal(requests().Draw(r, "request"))
		if err != nil {
			r.Fatal(err)
		}
		for range rapid.IntRange(1, 4).Draw(r, "damages") {
			if len(b) == 0 {
				break
			}
			at := rapid.IntRange(0, len(b)-1).Draw(r, "at")
			if rapid.Bool().Draw(r, "cut") {
				b = b[:at]
			} else {
				b[at] = rapid.Byte().Draw(r, "byte")
			}
		}
		sameDecode(r, b)
	})
}

// wireCases are messages that no encoder writes but that a decoder meets.
func wireCases() map[string][]byte {
	nested := func(number protowire.Number, body []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), body)
	}
	varint := func(number protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), v)
	}
	join := func(parts ...[]byte) (b []byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	}
	limit := func(parts ...[]byte) []byte { return nested(2, join(parts...)) }
	return map[string][]byte{
		"empty":                          {},
		"domain twice":                   join(nested(1, []byte("a")), nested(1, []byte("b"))),
		"domain as a number":             varint(1, 7),
		"hits as a string":               nested(3, []byte("7")),
		"hits above 32 bits":             varint(3, 1<<40|5),
		"hits as a long varint":          append(protowire.AppendTag(nil, 3, protowire.VarintType), 0x85, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01),
		"varint of eleven bytes":         append(protowire.AppendTag(nil, 3, protowire.VarintType), 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01),
		"not UTF-8, then UTF-8":          join(nested(1, []byte{0xff}), nested(1, []byte("a"))),
		"surrogate half":                 nested(1, []byte{0xed, 0xa0, 0x80}),
		"NUL in the domain":              nested(1, []byte("a\x00b")),
		"unknown fields":                 join(varint(9, 1), nested(99, []byte{0xff}), protowire.AppendFixed32(protowire.AppendTag(nil, 10, protowire.Fixed32Type), 1)),
		"known number, fixed64":          protowire.AppendFixed64(protowire.AppendTag(nil, 3, protowire.Fixed64Type), 1),
		"unknown group":                  protowire.AppendGroup(protowire.AppendTag(nil, 9, protowire.StartGroupType), 9, varint(1, 1)),
		"known number as a group":        protowire.AppendGroup(protowire.AppendTag(nil, 2, protowire.StartGroupType), 2, varint(1, 1)),
		"group without an end":           protowire.AppendTag(nil, 9, protowire.StartGroupType),
		"end without a group":            protowire.AppendTag(nil, 9, protowire.EndGroupType),
		"end of another group":           protowire.AppendTag(protowire.AppendTag(nil, 9, protowire.StartGroupType), 8, protowire.EndGroupType),
		"reserved wire type":             {0x0f},
		"field number 0":                 {0x02, 0x00},
		"largest field number":           varint(protowire.MaxValidNumber, 1),
		"field number too large":         protowire.AppendVarint(protowire.AppendVarint(nil, uint64(protowire.MaxValidNumber+1)<<3), 1),
		"tag beyond 32 bits":             protowire.AppendVarint(protowire.AppendVarint(nil, 1<<40), 1),
		"length beyond the end":          {0x0a, 0x05, 'a'},
		"length beyond 63 bits":          append([]byte{0x0a}, protowire.AppendVarint(nil, 1<<63+1)...),
		"tag alone":                      {0x0a},
		"peek":                           nested(2, nested(3, nil)),
		"hits of a descriptor twice":     nested(2, join(nested(3, varint(1, 5)), nested(3, nil))),
		"hits of 2^63":                   nested(2, nested(3, varint(1, 1<<63))),
		"limits are merged":              nested(2, join(limit(varint(1, 5)), limit(varint(2, 3)), limit(nested(3, varint(1, 30))), limit(nested(3, nil)))),
		"negative unit":                  nested(2, limit(varint(2, 1<<64-1))),
		"unit above 32 bits":             nested(2, limit(varint(2, 1<<32+2))),
		"multiplier above 32 bits":       nested(2, limit(nested(3, varint(1, 1<<32+2)))),
		"bool above 1":                   nested(2, varint(4, 1<<33)),
		"bool twice":                     nested(2, join(varint(4, 1), varint(4, 0))),
		"entry with its fields reversed": nested(2, nested(1, join(nested(2, []byte("v")), nested(1, []byte("k")), nested(2, []byte("w"))))),
		"value not UTF-8":                nested(2, nested(1, nested(2, []byte{0xc0, 0x80}))),
		"deep groups":                    deepGroups(9_000),
		"groups beyond the bound":        deepGroups(11_000),
	}
}

func deepGroups(depth int) (b []byte) {
	for range depth {
		b = protowire.AppendTag(b, 9, protowire.StartGroupType)
	}
	for range depth {
		b = protowire.AppendTag(b, 9, protowire.EndGroupType)
	}
	return b
}

func TestDecodeOfUnusualMessages(t *testing.T) {
	for name, b := range wireCases() {
		t.Run(name, func(t *testing.T) { sameDecode(t, b) })
	}
}

func FuzzDecode(f *testing.F) {
	for _, b := range wireCases() {
		f.Add(b)
	}
	b, err := proto.Marshal(exampleRequest())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) { sameDecode(t, b) })
}

// exampleRequest uses every field.
func exampleRequest() *rlsv3.RateLimitRequest {
	return &rlsv3.RateLimitRequest{
		Domain: "edge",
		Descriptors: []*ratelimitv3.RateLimitDescriptor{
			{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "tenant", Value: "acme"}, {Key: "op", Value: "write"}}},
			{
				Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "192.0.2.1"}},
				Limit: &ratelimitv3.RateLimitDescriptor_RateLimitOverride{
					RequestsPerUnit: 42, Unit: typev3.RateLimitUnit_MINUTE, UnitMultiplier: wrapperspb.UInt32(5),
				},
				HitsAddend:     wrapperspb.UInt64(3),
				IsNegativeHits: true,
			},
		},
		HitsAddend: 2,
	}
}

// sameEncode demands that the generated code reads from the encoded answer what
// it holds.
func sameEncode(t rapid.TB, a *answer) {
	t.Helper()
	b := a.append(nil)
	if a.size() != len(b) {
		t.Fatalf("size is %d, but %d bytes were appended", a.size(), len(b))
	}
	var got rlsv3.RateLimitResponse
	if err := proto.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := a.generated()
	if a.metadata != nil {
		want.DynamicMetadata = new(structpb.Struct)
		if err := proto.Unmarshal(a.metadata, want.DynamicMetadata); err != nil {
			t.Fatal(err)
		}
	}
	if !proto.Equal(&got, want) {
		t.Fatalf("encoded answer:\n%s", cmp.Diff(want, &got, protocmp.Transform()))
	}
}

func answers() *rapid.Generator[*answer] {
	one := rapid.Custom(func(t *rapid.T) descriptorStatus {
		s := descriptorStatus{
			code:      rapid.SampledFrom([]int32{codeOK, codeOverLimit}).Draw(t, "code"),
			remaining: rapid.Uint32().Draw(t, "remaining"),
		}
		if rapid.Bool().Draw(t, "limit") {
			s.resetSeconds = rapid.Int64Range(0, 1<<40).Draw(t, "reset")
			s.currentLimit = currentLimit{
				present:    true,
				requests:   rapid.Uint32().Draw(t, "requests"),
				name:       rapid.String().Draw(t, "name"),
				unit:       rapid.Int32Range(0, 7).Draw(t, "unit"),
				multiplier: rapid.Uint32().Draw(t, "multiplier"),
			}
		}
		return s
	})
	pair := rapid.Custom(func(t *rapid.T) header {
		return header{rapid.String().Draw(t, "key"), rapid.String().Draw(t, "value")}
	})
	return rapid.Custom(func(t *rapid.T) *answer {
		a := &answer{
			overall:        rapid.SampledFrom([]int32{codeOK, codeOverLimit}).Draw(t, "overall"),
			statuses:       rapid.SliceOfN(one, 0, 5).Draw(t, "statuses"),
			headers:        rapid.SliceOfN(pair, 0, 4).Draw(t, "headers"),
			requestHeaders: rapid.SliceOfN(pair, 0, 4).Draw(t, "request headers"),
		}
		if rapid.Bool().Draw(t, "metadata") {
			a.metadata, _ = proto.Marshal(structOf(map[string]any{"k": rapid.String().Draw(t, "text")}))
		}
		return a
	})
}

func TestEncodeWritesWhatTheGeneratedCodeReads(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { sameEncode(r, answers().Draw(r, "answer")) })
}

func FuzzEncode(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(r *rapid.T) { sameEncode(r, answers().Draw(r, "answer")) }))
}

func TestCodecOfOtherMessages(t *testing.T) {
	c := newCodec()
	data, err := c.Marshal(&healthpb.HealthCheckRequest{Service: "ratelimit"})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Free()
	var got healthpb.HealthCheckRequest
	if err := c.Unmarshal(data, &got); err != nil || got.Service != "ratelimit" {
		t.Errorf("Unmarshal: %q, %v", got.Service, err)
	}
	if _, err := c.Marshal(42); err == nil {
		t.Error("Marshal of no message: no error")
	}
	if err := c.Unmarshal(data, 42); err == nil {
		t.Error("Unmarshal into no message: no error")
	}
	if _, err := c.Marshal(new(call)); err == nil {
		t.Error("Marshal of a call without an answer: no error")
	}
}

// A message that arrives in several buffers reads the same as in one.
func TestCodecOfSplitMessage(t *testing.T) {
	b, err := proto.Marshal(exampleRequest())
	if err != nil {
		t.Fatal(err)
	}
	for cut := range b {
		got := new(call)
		if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b[:cut]), mem.SliceBuffer(b[cut:])}, got); err != nil {
			t.Fatal(err)
		}
		if g := got.message.generated(); !proto.Equal(g, exampleRequest()) {
			t.Fatalf("cut at %d: %v", cut, g)
		}
	}
}
