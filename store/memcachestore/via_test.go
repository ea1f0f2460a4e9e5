package memcachestore

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Connections are made by Via, and exchanges wait for Delay.
func TestN6ViaAndDelay(t *testing.T) {
	var delay atomic.Int64
	var refuses atomic.Bool
	s := open(t, Options{
		Servers: []string{testserver.Memcached(t, testserver.MemcachedConfig{}).Addr}, Budget: 50 * time.Millisecond,
		Delay: func() time.Duration { return time.Duration(delay.Load()) },
		Via: func(dial Dialer) Dialer {
			return func(ctx context.Context, network, addr string) (net.Conn, error) {
				if refuses.Load() {
					return nil, syscall.ECONNREFUSED
				}
				return dial(ctx, network, addr)
			}
		},
	})
	take := func() error {
		results := []store.Result{{}}
		l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1000, Period: time.Hour})
		s.Take(t.Context(), []store.Take{{Key: []byte("k"), Limit: l, Hits: 1}}, results)
		return results[0].Err
	}
	refuses.Store(true)
	if err := take(); err == nil {
		t.Error("a take went another way")
	}
	refuses.Store(false)
	eventually.True(t, "it decides", func() bool { return take() == nil })
	delay.Store(int64(time.Hour))
	if err := take(); err == nil {
		t.Error("a take was not delayed")
	}
	delay.Store(0)
	eventually.True(t, "it decides again", func() bool { return take() == nil })
}

// A store goes by the clock that it is given.
func TestN6Now(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t, testserver.MemcachedConfig{})
	var now atomic.Int64
	now.Store(int64(noon))
	s := open(t, Options{Servers: []string{server.Addr}, Now: func() limit.Micros { return limit.Micros(now.Load()) }})
	one := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1, Period: time.Hour})
	if first, second := takeOne(s, "k", one, 1), takeOne(s, "k", one, 1); !first.Allowed || second.Allowed {
		t.Errorf("%+v, %+v, want the second denied", first, second)
	}
	now.Add(int64(2 * time.Hour / time.Microsecond))
	if r := takeOne(s, "k", one, 1); !r.Allowed {
		t.Errorf("%+v two hours later", r)
	}
}
