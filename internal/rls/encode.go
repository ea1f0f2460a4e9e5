package rls

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of the answer, from rls.proto and base.proto.
const (
	responseOverallCode     protowire.Number = 1
	responseStatuses        protowire.Number = 2
	responseHeaders         protowire.Number = 3
	responseRequestHeaders  protowire.Number = 4
	responseRawBody         protowire.Number = 5
	responseDynamicMetadata protowire.Number = 6

	statusCode         protowire.Number = 1
	statusCurrentLimit protowire.Number = 2
	statusRemaining    protowire.Number = 3
	statusReset        protowire.Number = 4

	limitRequests   protowire.Number = 1
	limitUnit       protowire.Number = 2
	limitName       protowire.Number = 3
	limitMultiplier protowire.Number = 4

	headerKey   protowire.Number = 1
	headerValue protowire.Number = 2

	durationSeconds protowire.Number = 1
)

// answer is a RateLimitResponse.
type answer struct {
	overall  int32
	statuses []descriptorStatus
	// headers are response_headers_to_add, requestHeaders request_headers_to_add.
	headers, requestHeaders []header
	// body is raw_body, what Envoy answers a client that it keeps out; empty is none.
	body []byte
	// metadata is dynamic_metadata, an encoded google.protobuf.Struct; nil is
	// none.
	metadata []byte
}

type header struct{ key, value string }

// allow makes a the answer to a request of that many descriptors of which nothing is known but
// that it passes.
func (a *answer) allow(descriptors int) {
	*a = answer{overall: codeOK}
	for range max(descriptors, 1) {
		a.statuses = append(a.statuses, statusAllowed)
	}
}

func (a *answer) reset() {
	clear(a.statuses)
	clear(a.headers)
	clear(a.requestHeaders)
	*a = answer{statuses: a.statuses[:0], headers: a.headers[:0], requestHeaders: a.requestHeaders[:0], body: a.body[:0]}
}

// size returns the length of what append appends.
func (a *answer) size() int {
	n := sizeVarint(responseOverallCode, uint64(a.overall))
	for i := range a.statuses {
		n += sizeBytes(responseStatuses, a.statuses[i].size())
	}
	for i := range a.headers {
		n += sizeBytes(responseHeaders, a.headers[i].size())
	}
	for i := range a.requestHeaders {
		n += sizeBytes(responseRequestHeaders, a.requestHeaders[i].size())
	}
	if len(a.body) > 0 {
		n += sizeBytes(responseRawBody, len(a.body))
	}
	if a.metadata != nil {
		n += sizeBytes(responseDynamicMetadata, len(a.metadata))
	}
	return n
}

// append appends the encoded answer to b.
func (a *answer) append(b []byte) []byte {
	b = appendVarint(b, responseOverallCode, uint64(a.overall))
	for i := range a.statuses {
		s := &a.statuses[i]
		b = appendPrefix(b, responseStatuses, s.size())
		b = s.append(b)
	}
	b = appendHeaders(b, responseHeaders, a.headers)
	b = appendHeaders(b, responseRequestHeaders, a.requestHeaders)
	if len(a.body) > 0 {
		b = appendPrefix(b, responseRawBody, len(a.body))
		b = append(b, a.body...)
	}
	if a.metadata != nil {
		b = appendPrefix(b, responseDynamicMetadata, len(a.metadata))
		b = append(b, a.metadata...)
	}
	return b
}

func appendHeaders(b []byte, n protowire.Number, headers []header) []byte {
	for i := range headers {
		h := &headers[i]
		b = appendPrefix(b, n, h.size())
		b = appendString(b, headerKey, h.key)
		b = appendString(b, headerValue, h.value)
	}
	return b
}

func (h *header) size() int {
	return sizeString(headerKey, h.key) + sizeString(headerValue, h.value)
}

func (s *descriptorStatus) size() int {
	n := sizeVarint(statusCode, uint64(s.code)) + sizeVarint(statusRemaining, uint64(s.remaining))
	if s.currentLimit.present {
		n += sizeBytes(statusCurrentLimit, s.currentLimit.size())
		n += sizeBytes(statusReset, sizeVarint(durationSeconds, uint64(s.resetSeconds)))
	}
	return n
}

func (s *descriptorStatus) append(b []byte) []byte {
	b = appendVarint(b, statusCode, uint64(s.code))
	if s.currentLimit.present {
		b = appendPrefix(b, statusCurrentLimit, s.currentLimit.size())
		b = s.currentLimit.append(b)
	}
	b = appendVarint(b, statusRemaining, uint64(s.remaining))
	if s.currentLimit.present {
		b = appendPrefix(b, statusReset, sizeVarint(durationSeconds, uint64(s.resetSeconds)))
		b = appendVarint(b, durationSeconds, uint64(s.resetSeconds))
	}
	return b
}

func (l *currentLimit) size() int {
	n := sizeVarint(limitRequests, uint64(l.requests)) +
		sizeVarint(limitUnit, uint64(l.unit)) +
		sizeString(limitName, l.name)
	if l.multiplier > 1 {
		n += sizeBytes(limitMultiplier, sizeVarint(wrapperValue, uint64(l.multiplier)))
	}
	return n
}

func (l *currentLimit) append(b []byte) []byte {
	b = appendVarint(b, limitRequests, uint64(l.requests))
	b = appendVarint(b, limitUnit, uint64(l.unit))
	b = appendString(b, limitName, l.name)
	if l.multiplier > 1 {
		b = appendPrefix(b, limitMultiplier, sizeVarint(wrapperValue, uint64(l.multiplier)))
		b = appendVarint(b, wrapperValue, uint64(l.multiplier))
	}
	return b
}

// Fields that hold their zero value are left out, as proto3 does.

func sizeVarint(n protowire.Number, v uint64) int {
	if v == 0 {
		return 0
	}
	return protowire.SizeTag(n) + protowire.SizeVarint(v)
}

func appendVarint(b []byte, n protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

func sizeString(n protowire.Number, s string) int {
	if s == "" {
		return 0
	}
	return sizeBytes(n, len(s))
}

func appendString(b []byte, n protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return append(appendPrefix(b, n, len(s)), s...)
}

func sizeBytes(n protowire.Number, size int) int {
	return protowire.SizeTag(n) + protowire.SizeBytes(size)
}

// appendPrefix begins a field of size bytes, which the caller appends next.
func appendPrefix(b []byte, n protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.BytesType), uint64(size))
}
