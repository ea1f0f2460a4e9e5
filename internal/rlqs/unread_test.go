package rlqs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// unread is the server's end of a stream whose client has reported once and reads nothing.
type unread struct {
	rlqspb.RateLimitQuotaService_StreamRateLimitQuotasServer
	ctx      context.Context
	reported chan *rlqspb.RateLimitQuotaUsageReports
}

func (u *unread) Context() context.Context { return u.ctx }

func (u *unread) RecvMsg(into any) error {
	select {
	case m := <-u.reported:
		b, err := proto.Marshal(m)
		if err != nil {
			return err
		}
		return proto.Unmarshal(b, into.(proto.Message))
	case <-u.ctx.Done():
		return u.ctx.Err()
	}
}

func (u *unread) Send(*rlqspb.RateLimitQuotaResponse) error {
	<-u.ctx.Done()
	return u.ctx.Err()
}

// TestUnread: a client that does not read its assignments loses its stream and its leases after a
// while.
func TestUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts, door := limited(t, 40)
		service := New(Options{
			Decider: door, Store: counts, OnPanic: func(cause any, stack []byte) { t.Errorf("%v\n%s", cause, stack) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel() // as the server does when the call ends
		client := &unread{ctx: ctx, reported: make(chan *rlqspb.RateLimitQuotaUsageReports, 1)}
		client.reported <- reports("d", usageOf("ann", 1))
		began := time.Now()
		if err := service.StreamRateLimitQuotas(client); !errors.Is(err, errUnread) || time.Since(began) != unreadFor {
			t.Errorf("ended with %v after %v", err, time.Since(began))
		}
		if s := service.Stats(); s.Buckets != 0 || s.Streams != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestClientsGone: streams end with the connections of their clients, each of them, and make room
// for others.
func TestClientsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts, door := limited(t, 40)
		service := New(Options{
			Decider: door, Store: counts, OnPanic: func(cause any, stack []byte) { t.Errorf("%v\n%s", cause, stack) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		const streams = 64 // several, because chance has a part in how a stream hears of its end
		ended := make(chan error, streams)
		for range streams {
			go func() { ended <- service.StreamRateLimitQuotas(&unread{ctx: ctx}) }()
		}
		synctest.Wait()
		if s := service.Stats(); s.Streams != streams {
			t.Fatalf("%d streams are open, want %d", s.Streams, streams)
		}
		cancel()
		synctest.Wait()
		if s := service.Stats(); s.Streams != 0 {
			t.Errorf("%d streams are left of clients that have gone", s.Streams)
		}
		service.Drain() // so that a test that fails ends
		for range streams {
			<-ended
		}
	})
}

// TestStreamsOfAnAddress: an address has no more streams at a time than its part of them.
func TestStreamsOfAnAddress(t *testing.T) {
	service := New(Options{})
	for range addressStreams {
		if _, _, ok := service.addresses.Enter(t.Context()); !ok {
			t.Fatal("refused within its part")
		}
	}
	if err := service.StreamRateLimitQuotas(&unread{ctx: t.Context()}); status.Code(err) != codes.ResourceExhausted || service.streams.Load() != 0 {
		t.Errorf("ended with %v, %d streams", err, service.streams.Load())
	}
}
