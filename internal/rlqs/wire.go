package rlqs

import (
	"unicode/utf8"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/headgate/headgate/internal/protofields"
)

// lenient is a stream whose messages are read bucket by bucket. Envoy puts values of headers into
// the ids of buckets as they are, and reports every bucket in every message. So a message that is
// refused because of the bytes of one bucket would end the reports of all, for as long as that
// Envoy runs.
type lenient struct {
	rlqspb.RateLimitQuotaService_StreamRateLimitQuotasServer
	counts *counters
}

// Recv returns the next message. A bucket that cannot be read has no id in it. A message that is
// ignored as a whole is counted here, because gRPC may end the stream before it tells why.
func (l lenient) Recv() (*rlqspb.RateLimitQuotaUsageReports, error) {
	m, err := l.receive()
	if isUnreadable(err) {
		l.counts.ignored.Add(1)
	}
	return m, err
}

func (l lenient) receive() (*rlqspb.RateLimitQuotaUsageReports, error) {
	var m emptypb.Empty // knows no field, and so keeps the bytes of all
	if err := l.RecvMsg(&m); err != nil {
		return nil, err
	}
	return decode(m.ProtoReflect().GetUnknown())
}

// isUnreadable reports whether err, of receiving a message, is of the message, such as one that is
// too long, and not of the connection. Envoy sends the next one all the same, as long and in vain,
// so somebody has to see it.
func isUnreadable(err error) bool {
	switch status.Code(err) {
	case codes.ResourceExhausted, codes.InvalidArgument, codes.Internal:
		return true
	}
	return false
}

var (
	errMalformed = status.Error(codes.InvalidArgument, "decode RateLimitQuotaUsageReports: malformed protobuf message")
	errNotUTF8   = status.Error(codes.InvalidArgument, "decode RateLimitQuotaUsageReports: the domain is not valid UTF-8")
)

// decode reads a message.
func decode(b []byte) (*rlqspb.RateLimitQuotaUsageReports, error) {
	m := &rlqspb.RateLimitQuotaUsageReports{}
	for f, ok := range protofields.Fields(b) {
		switch {
		case !ok:
			return nil, errMalformed
		case f.IsBytes(domainField) && !utf8.Valid(f.Body):
			return nil, errNotUTF8
		case f.IsBytes(domainField):
			m.Domain = string(f.Body)
		case f.IsBytes(usagesField):
			m.BucketQuotaUsages = append(m.BucketQuotaUsages, decodeUsage(f.Body))
		}
	}
	return m, nil
}

// The numbers of the fields of a message.
const domainField, usagesField = 1, 2

// decodeUsage reads what a message says of one bucket: nothing, where that cannot be read.
func decodeUsage(b []byte) *rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage {
	u := &rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage{}
	if proto.Unmarshal(b, u) != nil {
		return &rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage{}
	}
	return u
}
