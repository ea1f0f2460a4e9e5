package streamfront

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate/client/stream/streampb"
	"github.com/headgate/headgate/internal/streamwire"
)

// FuzzDecode: what is read of a message is what the generated code reads, and what that code
// refuses is refused here, or is the message of one check, which then fails by itself.
func FuzzDecode(f *testing.F) {
	whole := ofUsers(1, "ann", "bob")
	whole.InOrder = true
	whole.Checks[1].Timeout = durationpb.New(3*time.Second + 5)
	b, err := proto.Marshal(whole)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(append(bytes.Clone(b), b...))
	f.Add(protowire.AppendBytes(protowire.AppendTag(nil, streamwire.RequestChecks, protowire.BytesType), append(b, b...)))
	// A check whose request is there in two parts.
	one, err := proto.Marshal(whole.Checks[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(protowire.AppendBytes(protowire.AppendTag(nil, streamwire.RequestChecks, protowire.BytesType), append(bytes.Clone(one), one...)))
	f.Add([]byte{0x0a, 0xff})
	f.Add([]byte{0x0b, 0x0c})
	at := time.Unix(1_800_000_000, 0)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decode(b, at)
		want := new(streampb.CheckRequest)
		wantErr := proto.Unmarshal(b, want)
		switch {
		case err != nil && wantErr == nil:
			if errors.Is(err, errMalformed) {
				t.Fatalf("refused: %v", err)
			}
			return
		case err != nil:
			return
		case wantErr != nil:
			for i := range p.asked {
				if proto.Unmarshal(p.asked[i].Message, want.ProtoReflect().New().Interface()) != nil {
					return
				}
			}
			return
		}
		if len(p.asked) != len(want.Checks) || p.inOrder != want.InOrder {
			t.Fatalf("%d checks, in order: %v, want %v", len(p.asked), p.inOrder, want)
		}
		for i, check := range want.Checks {
			if p.asked[i].Number != check.Number {
				t.Fatalf("check %d has number %d, want %d", i, p.asked[i].Number, check.Number)
			}
			request := new(rlsv3.RateLimitRequest)
			if err := proto.Unmarshal(p.asked[i].Message, request); err != nil || !proto.Equal(request, check.Request) && check.Request != nil {
				t.Fatalf("check %d asks %v, %v, want %v", i, request, err, check.Request)
			}
		}
	})
}

func TestDuration(t *testing.T) {
	for _, test := range []struct {
		d    *durationpb.Duration
		want time.Duration
		ok   bool
	}{
		{&durationpb.Duration{}, 0, true},
		{durationpb.New(20 * time.Millisecond), 20 * time.Millisecond, true},
		{durationpb.New(90*time.Second + 1), 90*time.Second + 1, true},
		{&durationpb.Duration{Seconds: math.MaxInt64}, 0, true},
		{&durationpb.Duration{Seconds: math.MaxInt64 / int64(time.Second)}, 0, true},
		{&durationpb.Duration{Seconds: -1}, 0, false},
		{&durationpb.Duration{Nanos: -1}, 0, false},
		{&durationpb.Duration{Nanos: 1_000_000_000}, 0, false},
	} {
		b, err := proto.Marshal(test.d)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeDuration(b); got != test.want || (err == nil) != test.ok {
			t.Errorf("%v: %v, %v", test.d, got, err)
		}
	}
}
