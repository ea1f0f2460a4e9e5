package grpclimit_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/store/memstore"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// watcher is an Observer that keeps who sent the last call.
type watcher struct {
	mu     sync.Mutex
	origin headgate.Origin
}

func (w *watcher) Decided(req *headgate.Request, _ *headgate.Response, _ time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.origin = req.Origin
}

func (w *watcher) last() headgate.Origin {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.origin
}

func TestObserversHearOfTheCaller(t *testing.T) {
	buckets, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	w := new(watcher)
	l, err := headgate.New(headgate.Options{Store: buckets, Observer: w})
	if err != nil {
		t.Fatal(err)
	}
	cc := serve(t, newServer(t, l, grpclimit.Options{Limits: perHour(100)}), grpc.WithUserAgent("shop/7"))
	for _, step := range []struct {
		trace []string
		want  string
	}{
		{nil, ""},
		{[]string{"traceparent", traceparent}, traceparent},
		{[]string{"traceparent", traceparent, "traceparent", traceparent}, ""},
		{[]string{"traceparent", strings.ToUpper(traceparent)}, ""},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), step.trace...)
		if err := cc.Invoke(ctx, "/test.Echo/Say", wrapperspb.String("hello"), new(wrapperspb.StringValue)); err != nil {
			t.Fatal(err)
		}
		o := w.last()
		if o.ClientIP.String() != "127.0.0.1" || !strings.HasPrefix(o.UserAgent, "shop/7 ") || o.Trace.Traceparent() != step.want {
			t.Errorf("%q: %+v", step.trace, o)
		}
	}
}
