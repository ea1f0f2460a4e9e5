package grpclimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// chat opens a stream, sends words until one is not answered, and returns how
// many were and why it ended.
func chat(t *testing.T, cc *grpc.ClientConn, words int) (answered int, header metadata.MD, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream, err := cc.NewStream(ctx, chatDesc, "/test.Echo/Chat")
	if err != nil {
		return 0, nil, err
	}
	for range words {
		// An error of the stream is told by RecvMsg.
		if err := stream.SendMsg(wrapperspb.String("x")); status.Code(err) == codes.ResourceExhausted {
			return answered, nil, err
		}
		if err := stream.RecvMsg(new(wrapperspb.StringValue)); err != nil {
			return answered, nil, err
		}
		answered++
	}
	header, _ = stream.Header()
	_ = stream.CloseSend()
	return answered, header, nil
}

func TestStreamOpening(t *testing.T) {
	cc := serve(t, newServer(t, newLimiter(t), grpclimit.Options{Limits: perHour(1)}))
	if n, header, err := chat(t, cc, 5); n != 5 || err != nil || len(header["ratelimit"]) != 1 {
		t.Errorf("the first stream: %d answers, header %v, %v", n, header, err)
	}
	n, _, err := chat(t, cc, 5)
	if n != 0 || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the second stream: %d answers, %v", n, err)
	}
	detail[*errdetails.RetryInfo](t, err)
}

func TestStreamMessages(t *testing.T) {
	limits := newServer(t, newLimiter(t), grpclimit.Options{Limits: perHour(4), Messages: true})
	n, _, err := chat(t, serve(t, limits), 10)
	if n != 3 || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%d answers, %v; want 3, the opening being one of four", n, err)
	}
	detail[*errdetails.QuotaFailure](t, err)
}

func newClient(t *testing.T, o grpclimit.Options) *grpclimit.Client {
	t.Helper()
	c, err := grpclimit.NewClient(newLimiter(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClientFailsLocally(t *testing.T) {
	server := newServer(t, newLimiter(t), grpclimit.Options{Limits: perHour(1000)})
	client := newClient(t, grpclimit.Options{Limits: perHour(3), Messages: true})
	cc := serve(t, server, grpc.WithUnaryInterceptor(client.Unary), grpc.WithStreamInterceptor(client.Stream))
	if n, _, err := chat(t, cc, 5); n != 2 || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("stream: %d answers, %v; want 2", n, err)
	}
	err := say(t, cc, "x")
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("call: %v", err)
	}
	detail[*errdetails.RetryInfo](t, err)
	if s := server.Stats(); s.Allowed != 1 {
		t.Errorf("the server saw %+v, want the opening alone", s)
	}
}

// invoke calls the interceptor without a network: a server would not let the
// time of a bubble go on.
func invoke(ctx context.Context, t *testing.T, c *grpclimit.Client) error {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///a", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	return c.Unary(ctx, "/test.Echo/Say", nil, nil, cc, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil })
}

func TestClientWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		perSecond := []rules.NamedLimit{{Limit: limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1, Period: time.Second, Burst: 1})}}
		c := newClient(t, grpclimit.Options{Limits: perSecond, Patience: 1500 * time.Millisecond})
		start := time.Now()
		for i := range 3 {
			if err := invoke(t.Context(), t, c); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
			if at := time.Since(start).Round(time.Millisecond); at != time.Duration(i)*time.Second {
				t.Errorf("call %d went at %v", i, at)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := invoke(ctx, t, c); status.Code(err) != codes.ResourceExhausted || ctx.Err() != nil {
			t.Errorf("with too little time: %v, want RESOURCE_EXHAUSTED at once", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		go cancel()
		if err := invoke(ctx, t, c); status.Code(err) != codes.Canceled {
			t.Errorf("cancelled while it waits: %v", err)
		}
		if s := c.Stats(); s.GaveUp != 1 || s.Waiting != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}
