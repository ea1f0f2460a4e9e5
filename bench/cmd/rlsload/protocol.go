package main

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// protocol is how a system is asked.
type protocol struct {
	// path is the gRPC method.
	path string
	// messages are the requests of a workload, marshalled.
	messages func(w workload, keys int) ([][]byte, error)
	// code reads the answer, its five bytes of prefix included: 1 is OK, 2 over
	// the limit, 0 anything else. nil is that of Envoy.
	code func(message []byte) int
	// http says that it is asked by HTTP/1.1, and messages are bodies.
	http bool
}

// envoy is what Envoy speaks.
var envoy = protocol{
	path:     "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
	messages: workload.messages,
}

// gubernator is what gubernator speaks: each limit is part of the request, and a
// request of several descriptors is one call with several limits.
var gubernator = protocol{
	path:     "/pb.gubernator.V1/GetRateLimits",
	messages: workload.gubernatorMessages,
	code:     gubernatorCode,
}

// Fields of gubernator.proto.
const (
	gubernatorRequests, gubernatorResponses = 1, 1

	gubernatorName, gubernatorKey, gubernatorHits, gubernatorLimit, gubernatorDuration = 1, 2, 3, 4, 5

	gubernatorStatus, gubernatorError = 1, 5
)

// gubernatorMessages are messages in the words of gubernator.
func (w workload) gubernatorMessages(keys int) ([][]byte, error) {
	quota, millis := uint64(1_000_000_000), uint64(3_600_000)
	if w.over {
		quota, millis = 1, 86_400_000
	}
	all := make([][]byte, keys)
	for i, names := range w.descriptorsOf(keys) {
		for _, d := range names {
			var r []byte
			r = protowire.AppendTag(r, gubernatorName, protowire.BytesType)
			r = protowire.AppendString(r, d.key)
			r = protowire.AppendTag(r, gubernatorKey, protowire.BytesType)
			r = protowire.AppendString(r, d.value)
			r = protowire.AppendTag(r, gubernatorHits, protowire.VarintType)
			r = protowire.AppendVarint(r, 1)
			r = protowire.AppendTag(r, gubernatorLimit, protowire.VarintType)
			r = protowire.AppendVarint(r, quota)
			r = protowire.AppendTag(r, gubernatorDuration, protowire.VarintType)
			r = protowire.AppendVarint(r, millis)
			all[i] = protowire.AppendTag(all[i], gubernatorRequests, protowire.BytesType)
			all[i] = protowire.AppendBytes(all[i], r)
		}
	}
	return all, nil
}

// gubernatorCode is over the limit when one of the answers is, and nothing when
// one is an error.
func gubernatorCode(message []byte) int {
	const prefix, ok, over = 5, 1, 2
	if len(message) < prefix {
		return 0
	}
	code, failed := 0, false
	err := fields(message[prefix:], func(number protowire.Number, answer []byte) {
		if number != gubernatorResponses {
			return
		}
		code = max(code, ok)
		bad := fields(answer, func(number protowire.Number, value []byte) {
			switch {
			case number == gubernatorError:
				failed = true
			case number == gubernatorStatus && len(value) > 0 && value[0] != 0: // UNDER_LIMIT is 0
				code = over
			}
		})
		failed = failed || bad != nil
	})
	if err != nil || failed {
		return 0
	}
	return code
}

// fields calls f with the number and the bytes of each field of a message: the
// content of what has a length, of others what stands there.
func fields(message []byte, f func(number protowire.Number, value []byte)) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return protowire.ParseError(n)
		}
		value := message[:n]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(message)
		}
		f(number, value)
		message = message[n:]
	}
	return nil
}
