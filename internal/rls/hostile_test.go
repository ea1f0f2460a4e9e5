package rls

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules/rulefile"
)

// Values that break keys which are joined with separators, cut, or handed to a
// store as they are (F73, F74).
var hostileValues = []string{
	"", " ", "a", "a ", "A", "a\x00", "a\x00b", "\x00", "{", "}", "{a}", "{}", "{a}{b}", "a_b", "a|b", "a:b", "a%00",
	"\r\n", "a\r\nSET x y", "*", "?", "[a]", "é", "e\u0301", "\u202ea", "\ufffd", "$(a)", "'; --",
	strings.Repeat("x", 64<<10), strings.Repeat("x", 64<<10-1) + "y",
}

// Every value has a budget of its own, whatever it is made of.
func TestHostileValuesDoNotShareABucket(t *testing.T) {
	now := noon
	l := limiter(t, fivePerMinute, rulefile.Options{Compat: true}, false, &now)
	s := newService(Options{Checker: l, Compat: true})
	for _, value := range hostileValues {
		resp, err := ask(t, s, request("d", withHits(entries("k", value), 5)))
		if err != nil {
			t.Fatalf("value %.20q: %v", value, err)
		}
		if got := answerText(resp); got != "OK: OK five 5/minute left=0 reset=30" {
			t.Errorf("value %.20q: %s", value, got)
		}
	}
	// Nor do the two halves of an entry run into each other.
	for _, d := range [][]string{{"a", "b_c"}, {"a_b", "c"}, {"a", "b", "c", ""}, {"a", "b", "c", "d"}} {
		req := request("d", withHits(entries(d...), 5))
		req.Descriptors[0].Limit = fivePerMinuteOverride()
		resp, err := ask(t, s, req)
		if err != nil || resp.OverallCode != ok {
			t.Errorf("descriptor %q: %v, %v", d, resp, err)
		}
	}
}

func TestHostileRequests(t *testing.T) {
	now := noon
	s := newService(Options{Checker: limiter(t, fivePerMinute, rulefile.Options{}, false, &now)})
	deep := entries()
	for range 33 {
		deep.Entries = append(deep.Entries, entries("k", "v").Entries...)
	}
	tests := []struct {
		name string
		req  *rlsv3.RateLimitRequest
		want string
	}{
		{"a value of 1 MB", request("d", entries("k", strings.Repeat("x", 1<<20))), "hint: at most 65536"},
		{"a key of 1 MB", request("d", entries(strings.Repeat("x", 1<<20), "v")), "hint: at most 65536"},
		{"33 entries", request("d", deep), "hint: at most 32"},
		{"hits of 2^63", request("d", withHits(entries("k", "v"), 1<<63)), "out of range"},
		{"hits of 2^64-1", request("d", withHits(entries("k", "v"), math.MaxUint64)), "out of range"},
		{"hits above the largest", request("d", withHits(entries("k", "v"), limit.MaxQuota+1)), "out of range"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ask(t, s, test.req)
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want InvalidArgument with %q", err, test.want)
			}
		})
	}
	// Nothing of it was charged.
	resp, err := ask(t, s, request("d", withHits(entries("k", "v"), 0)))
	if err != nil || resp.Statuses[0].LimitRemaining != 5 {
		t.Errorf("after all that: %v, %v", resp, err)
	}
}

// FuzzCall sends bytes through all of the service, with a real limiter behind
// it: there is no panic, what is refused is the caller's fault, and what is
// answered has one known status for each descriptor.
func FuzzCall(f *testing.F) {
	for _, b := range wireCases() {
		f.Add(b)
	}
	example := exampleRequest()
	example.Domain = "d"
	override := entries("k", "v")
	override.Limit = fivePerMinuteOverride()
	for _, req := range []*rlsv3.RateLimitRequest{example, request("d", override), request("d", withHits(entries("k", "v", "x", "y"), 9))} {
		b, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	now := noon
	var panicked any
	s := newService(Options{
		Checker:         limiter(f, fivePerMinute, rulefile.Options{}, false, &now),
		Headers:         envoyHeaders,
		DynamicMetadata: true,
		OnPanic:         func(cause any, stack []byte) { panicked = fmt.Sprintf("%v\n%s", cause, stack) },
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		resp, err := askBytes(t, s, b)
		if panicked != nil {
			t.Fatalf("panic: %v", panicked)
		}
		if err != nil {
			if status.Code(err) != codes.InvalidArgument && !errors.Is(err, errMalformed) && !errors.Is(err, errNotUTF8) {
				t.Fatalf("error %v", err)
			}
			return
		}
		var req rlsv3.RateLimitRequest
		if err := proto.Unmarshal(b, &req); err != nil {
			t.Fatalf("answered what is no request: %v", err)
		}
		if len(resp.Statuses) != len(req.Descriptors) {
			t.Fatalf("%d statuses for %d descriptors", len(resp.Statuses), len(req.Descriptors))
		}
		codes := append([]*rlsv3.RateLimitResponse_DescriptorStatus{bare(resp.OverallCode)}, resp.Statuses...)
		for i, s := range codes {
			if s.Code != ok && s.Code != over {
				t.Fatalf("code %d is %v", i, s.Code)
			}
		}
	})
}
