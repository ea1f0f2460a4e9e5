package stream

import (
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/client/stream/streampb"
)

func decodeRequest(t testing.TB, b []byte) *streampb.CheckRequest {
	t.Helper()
	m := new(streampb.CheckRequest)
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestAppendRequest: the generated code reads what is sent.
func TestAppendRequest(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	request, err := proto.Marshal(in("d"))
	if err != nil {
		t.Fatal(err)
	}
	m := decodeRequest(t, appendRequest(nil, []*check{
		{number: 1, request: request},
		{number: 1 << 40, request: request, deadline: now.Add(2*time.Second + 3)},
		{number: 3, request: nil, deadline: now.Add(-time.Second)},
	}, now))
	if len(m.GetChecks()) != 3 || m.GetInOrder() {
		t.Fatalf("%v", m)
	}
	for i, want := range []struct {
		number  uint64
		timeout time.Duration
		domain  string
	}{{1, 0, "d"}, {1 << 40, 2*time.Second + 3, "d"}, {3, 1, ""}} {
		got := m.GetChecks()[i]
		if got.GetNumber() != want.number || got.GetTimeout().AsDuration() != want.timeout || got.GetRequest().GetDomain() != want.domain {
			t.Errorf("check %d: %v", i, got)
		}
	}
}

// FuzzDecodeResponse: what is read of an answer is what the generated code reads, as far as that
// code takes it.
func FuzzDecodeResponse(f *testing.F) {
	b, err := proto.Marshal(&streampb.CheckResponse{Answers: []*streampb.Answer{
		{Number: 7, Outcome: &streampb.Answer_Response{Response: &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OVER_LIMIT}}},
		{Number: 8, Outcome: &streampb.Answer_Failure{Failure: &streampb.Failure{Code: int32(codes.PermissionDenied), Message: "no right"}}},
		{Number: 9, Outcome: &streampb.Answer_Response{Response: &rlsv3.RateLimitResponse{}}},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(append(b, b...))
	// An answer whose response is there in two parts.
	f.Add([]byte{0x0a, 0x08, 0x12, 0x02, 0x08, 0x02, 0x12, 0x02, 0x08, 0x01})
	f.Add([]byte{0x0a, 0x02, 0x08, 0x07})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeResponse(b)
		want := new(streampb.CheckResponse)
		if proto.Unmarshal(b, want) != nil {
			return
		}
		if err != nil {
			for _, a := range want.GetAnswers() {
				if a.GetOutcome() == nil {
					return
				}
			}
			t.Fatalf("refused %v: %v", want, err)
		}
		if len(got) != len(want.GetAnswers()) {
			t.Fatalf("%d answers, want %d", len(got), len(want.GetAnswers()))
		}
		for i, a := range want.GetAnswers() {
			failed := a.GetFailure() != nil
			if response, err := (&check{response: got[i].response}).answer(); !failed && (err != nil || !proto.Equal(response, a.GetResponse())) {
				t.Fatalf("answer %d: %v, %v, want %v", i, response, err, a.GetResponse())
			}
			if got[i].number != a.GetNumber() || (got[i].failure != nil) != failed {
				t.Fatalf("answer %d: %+v, want %v", i, got[i], a)
			}
			if code := codes.Code(a.GetFailure().GetCode()); failed && code != codes.OK && status.Code(got[i].failure) != code {
				t.Fatalf("answer %d: %v, want %v", i, got[i].failure, code)
			}
		}
	})
}
