package rlqs

import (
	"slices"
	"testing"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// field returns a field of a message that has bytes.
func field(number protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), body)
}

// usageOfBytes is the field that usageOf is in a message, of a user that may be any bytes.
func usageOfBytes(user string) []byte {
	entry := append(field(1, []byte("user")), field(2, []byte(user))...)
	return field(usagesField, append(field(1, field(1, entry)), 0x18, 1))
}

// wire is a message of these bytes.
func wire(parts ...[]byte) *emptypb.Empty {
	m := &emptypb.Empty{}
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	m.ProtoReflect().SetUnknown(all)
	return m
}

// TestBucketOfOtherBytes: a client of Envoy may send a header of bytes that are no UTF-8, and
// Envoy reports the bucket of it with all others. They are answered.
func TestBucketOfOtherBytes(t *testing.T) {
	service, client := serve(t, Options{})
	s := stream(t, client)
	for _, user := range []string{"alice", "bob"} {
		if err := s.SendMsg(wire(field(domainField, []byte("d")), usageOfBytes("al\xffice"), usageOfBytes(user))); err != nil {
			t.Fatal(err)
		}
		got, err := s.Recv()
		if err != nil {
			t.Fatalf("a message with a bucket that is no UTF-8: %v", err)
		}
		if n := len(got.BucketAction); n != 1 || got.BucketAction[0].BucketId.Bucket["user"] != user {
			t.Errorf("told %v, want one assignment, of %s", got, user)
		}
	}
	if got := service.Stats(); got.Ignored != 2 || got.Allowed != 2 {
		t.Errorf("%+v; want 2 ignored buckets, and 2 requests of the others", got)
	}
}

func TestDecode(t *testing.T) {
	want := reports("d", usageOf("alice", 3), usageOf("bob", 4))
	want.BucketQuotaUsages[1].TimeElapsed, want.BucketQuotaUsages[1].NumRequestsDenied = durationpb.New(5e9), 6
	b, err := proto.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	unknown := append(field(9, []byte("x")), 0x50, 1) // fields of later versions
	number := []byte{0x08, 1}                         // the domain as a number, which is none
	if got, err := decode(slices.Concat(unknown, b, number)); err != nil || !proto.Equal(got, want) {
		t.Errorf("decode: %v, %v; want %v", got, err, want)
	}
	// What of a bucket could be read before the fault would be another bucket.
	entry := func(key, value string) []byte {
		return field(1, append(field(1, []byte(key)), field(2, []byte(value))...))
	}
	half := field(usagesField, field(1, append(entry("user", "alice"), entry("path", "\xff")...)))
	if got, err := decode(half); err != nil || len(got.BucketQuotaUsages) != 1 || proto.Size(got.BucketQuotaUsages[0]) != 0 {
		t.Errorf("a bucket of which the second entry cannot be read: %v, %v; want one without an id", got, err)
	}
	for _, bad := range [][]byte{{0xff}, {0x0a}, {0x0a, 5, 'd'}, {0x00}, field(domainField, []byte{0xff})} {
		if got, err := decode(bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("decode(%x): %v, %v; want InvalidArgument", bad, got, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(append(field(domainField, []byte("d")), usageOfBytes("al\xffice")...))
	f.Fuzz(func(t *testing.T, b []byte) {
		want := &rlqspb.RateLimitQuotaUsageReports{}
		if proto.Unmarshal(b, want) != nil {
			_, _ = decode(b) // may read what is well formed, but never panics
			return
		}
		want.ProtoReflect().SetUnknown(nil)
		if got, err := decode(b); err != nil || !proto.Equal(got, want) {
			t.Errorf("decode(%x): %v, %v; want %v", b, got, err, want)
		}
	})
}
