package rlqs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/store/memstore"
)

// limited returns a store in memory, and what decides over it by so many requests a year.
func limited(t testing.TB, requests int) (*memstore.Store, *headgate.Door) {
	t.Helper()
	counts, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := headgate.New(headgate.Options{Store: counts, Rules: testrules.Load(t, rule(fmt.Sprintf("{unit: year, requests_per_unit: %d, algorithm: fixed_window}", requests)))})
	if err != nil {
		t.Fatal(err)
	}
	return counts, l.Door(headgate.DoorOptions{Name: "rlqs", Rights: headgate.Rights{Check: true, GiveBack: true, Explain: true}})
}

// serve returns a service over a connection, and a client of it.
func serve(t *testing.T, o Options) (*Service, rlqspb.RateLimitQuotaServiceClient) {
	t.Helper()
	counts, door := limited(t, 40)
	if o.Decider == nil {
		o.Decider = door
	}
	if o.OnPanic == nil {
		o.OnPanic = func(cause any, stack []byte) { t.Errorf("%v\n%s", cause, stack) }
	}
	o.Store = counts
	service, listener, server := New(o), bufconn.Listen(1<<16), grpc.NewServer()
	service.Register(server)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return service, rlqspb.NewRateLimitQuotaServiceClient(conn)
}

// stream opens one that ends with the test.
func stream(t *testing.T, c rlqspb.RateLimitQuotaServiceClient) rlqspb.RateLimitQuotaService_StreamRateLimitQuotasClient {
	t.Helper()
	s, err := c.StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func usageOf(user string, allowed uint64) *rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage {
	return &rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage{BucketId: &rlqspb.BucketId{Bucket: map[string]string{"user": user}}, NumRequestsAllowed: allowed}
}

func reports(domain string, all ...*rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage) *rlqspb.RateLimitQuotaUsageReports {
	return &rlqspb.RateLimitQuotaUsageReports{Domain: domain, BucketQuotaUsages: all}
}

func TestOverTheWire(t *testing.T) {
	service, client := serve(t, Options{})
	s := stream(t, client)
	if err := s.Send(reports("d", usageOf("ann", 1), usageOf("bob", 40))); err != nil {
		t.Fatal(err)
	}
	m, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*typev3.RateLimitStrategy{}
	for _, a := range m.GetBucketAction() {
		got[a.GetBucketId().GetBucket()["user"]] = a.GetQuotaAssignmentAction().GetRateLimitStrategy()
	}
	if got["ann"].GetTokenBucket().GetMaxTokens() != 4 || got["bob"].GetBlanketRule() != typev3.RateLimitStrategy_DENY_ALL || len(got) != 2 {
		t.Errorf("%v", got)
	}
	// The domain is that of the first message.
	if err := s.Send(reports("", usageOf("cid", 1))); err != nil {
		t.Fatal(err)
	}
	if m, err = s.Recv(); err != nil || len(m.GetBucketAction()) != 1 {
		t.Errorf("%v, %v", m, err)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("ended with %v", err)
	}
	if s := service.Stats(); s.Reports != 2 || s.Allowed != 42 || s.Assigned != 3 {
		t.Errorf("%+v", s)
	}
}

// Whatever an Envoy reports, the counts of what was let pass and denied do not go back.
func TestCountsDoNotGoBack(t *testing.T) {
	service, _ := serve(t, Options{})
	s := &session{service: service, domain: "d"}
	first := usageOf("ann", 7)
	first.NumRequestsDenied = 3
	s.read(reports("d", first))
	before := service.Stats()
	if before.Allowed != 7 || before.Denied != 3 {
		t.Errorf("allowed %d and denied %d, want 7 and 3", before.Allowed, before.Denied)
	}
	negative := usageOf("ann", math.MaxUint64)
	negative.NumRequestsDenied = math.MaxUint64
	s.read(reports("d", negative))
	if after := service.Stats(); after.Allowed <= before.Allowed || after.Denied <= before.Denied {
		t.Errorf("allowed %d and denied %d, before %d and %d", after.Allowed, after.Denied, before.Allowed, before.Denied)
	}
}

func TestWhatEndsAStream(t *testing.T) {
	_, client := serve(t, Options{})
	for name, sent := range map[string][]*rlqspb.RateLimitQuotaUsageReports{
		"no domain":      {reports("", usageOf("ann", 1))},
		"another domain": {reports("d", usageOf("ann", 1)), reports("e", usageOf("ann", 1))},
	} {
		s := stream(t, client)
		for _, m := range sent {
			if err := s.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		for err == nil {
			_, err = s.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Draining ends streams, and nothing else does.
func TestDrain(t *testing.T) {
	service, client := serve(t, Options{})
	s := stream(t, client)
	if err := s.Send(reports("d", usageOf("ann", 1))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	service.Drain()
	service.Drain()
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("ended with %v", err)
	}
}

// Who may not report is sent away.
func TestEnter(t *testing.T) {
	_, client := serve(t, Options{Enter: func(context.Context) error { return status.Error(codes.PermissionDenied, "no") }})
	if _, err := stream(t, client).Recv(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("ended with %v", err)
	}
}

// Who may not report any more, because a credential has ended or was taken back, is sent away
// with the next report.
func TestEnterOfAnOpenStream(t *testing.T) {
	var revoked atomic.Bool
	_, client := serve(t, Options{Enter: func(context.Context) error {
		if revoked.Load() {
			return status.Error(codes.Unauthenticated, "no more")
		}
		return nil
	}})
	s := stream(t, client)
	if err := s.Send(reports("d", usageOf("ann", 1))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	revoked.Store(true)
	if err := s.Send(reports("d", usageOf("bob", 1))); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Recv(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("%v, %v", m, err)
	}
}

// buggy panics.
type buggy struct{ Decider }

func (buggy) Check(context.Context, []headgate.Request, []headgate.Response) error { panic("a bug") }

// A panic ends one stream, and the next one is served.
func TestPanicEndsOneStream(t *testing.T) {
	told := make(chan any, 1)
	service, client := serve(t, Options{Decider: buggy{}, OnPanic: func(cause any, _ []byte) { told <- cause }})
	s := stream(t, client)
	if err := s.Send(reports("d", usageOf("ann", 1))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); status.Code(err) != codes.Internal || <-told != "a bug" {
		t.Errorf("ended with %v", err)
	}
	if s := service.Stats(); s.Buckets != 0 {
		t.Errorf("%+v", s)
	}
}

// There are no more streams than there may be.
func TestStreamsAreBounded(t *testing.T) {
	service, client := serve(t, Options{})
	service.streams.Store(maxStreams)
	if _, err := stream(t, client).Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("ended with %v", err)
	}
}

// Whatever is reported, each bucket is answered once and by what Envoy heeds, promises are no
// more than there is, and all is forgotten with the stream.
func FuzzReports(f *testing.F) {
	seed := func(all ...*rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage) {
		text, err := proto.Marshal(reports("d", all...))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	negative, long := usageOf("u", 3), usageOf("u", 3)
	negative.TimeElapsed, long.TimeElapsed = durationpb.New(-time.Hour), &durationpb.Duration{Seconds: math.MaxInt64, Nanos: -5}
	seed(usageOf("u", 1), usageOf("u", math.MaxUint64), usageOf("", 1))
	seed(negative, long, &rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage{}, &rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage{BucketId: &rlqspb.BucketId{Bucket: map[string]string{"": "x"}}})
	seed()
	f.Fuzz(func(t *testing.T, text []byte) {
		m := new(rlqspb.RateLimitQuotaUsageReports)
		if proto.Unmarshal(text, m) != nil {
			t.Skip()
		}
		w := newWorld(t, rule("{unit: day, requests_per_unit: 40, algorithm: fixed_window}"), 1)
		s := &session{service: w.nodes[0], leases: map[string]*lease{}}
		for range 3 {
			told, err := s.report(t.Context(), m)
			if err != nil {
				break
			}
			seen := map[string]bool{}
			for _, a := range told {
				if k := a.bucket.key; seen[k] {
					t.Fatalf("%q is answered twice", k)
				} else {
					seen[k] = true
				}
				if a.assignment.kind == metered && (a.assignment.tokens.Max < 1 || a.assignment.tokens.Fill < 1 || a.interval < time.Second || a.interval%time.Second != 0) {
					t.Fatalf("%+v", a)
				}
			}
			for _, le := range s.leases {
				if le.promised < 0 || le.promised > 41 {
					t.Fatalf("%d promised of 40", le.promised)
				}
			}
		}
		w.nodes[0].ledger.leave(s)
		if got := w.nodes[0].Stats(); got.Buckets != 0 || len(w.nodes[0].ledger.buckets) != 0 {
			t.Fatalf("%+v", got)
		}
	})
}

// A message that is too long, or is none, ends its stream, and an operator can see that.
func TestUnreadableMessagesAreCounted(t *testing.T) {
	service, client := serve(t, Options{})
	patience, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	long := reports("d")
	for range 1500 {
		long.BucketQuotaUsages = append(long.BucketQuotaUsages, usageOf(strings.Repeat("u", 3000), 1))
	}
	for i, tt := range []struct {
		m    proto.Message
		want codes.Code
	}{{long, codes.ResourceExhausted}, {wire([]byte{0xff}), codes.Internal}, {wire(field(domainField, []byte{0xff})), codes.InvalidArgument}} {
		s := stream(t, client)
		if err := s.SendMsg(tt.m); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); status.Code(err) != tt.want {
			t.Errorf("message %d: %v", i, err)
		}
		for service.Stats().Ignored == uint64(i) && patience.Err() == nil { // the client may hear first
			runtime.Gosched()
		}
	}
	if got := service.Stats(); got.Ignored != 3 || got.Reports != 0 {
		t.Errorf("%+v", got)
	}
}
