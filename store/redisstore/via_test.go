package redisstore

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// takeOnce makes one take, and returns its error.
func takeOnce(ctx context.Context, s store.Store) error {
	results := []store.Result{{}}
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1000, Period: time.Hour})
	s.Take(ctx, []store.Take{{Key: []byte("k"), Limit: l, Hits: 1}}, results)
	return results[0].Err
}

// Connections are made by Via, in a cluster too, and what it refuses is a store that is away.
func TestN6ConnectionsAreMadeVia(t *testing.T) {
	for name, options := range map[string]func(*testing.T) Options{
		"single": func(t *testing.T) Options { return Options{Addr: testserver.Redis(t, testserver.RedisConfig{}).Addr} },
		"cluster": func(t *testing.T) Options {
			return clusterOptions(testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var dials atomic.Int64
			var refuses atomic.Bool
			o := options(t)
			o.Via = func(dial conn.Dialer) conn.Dialer {
				return func(ctx context.Context, network, addr string) (net.Conn, error) {
					dials.Add(1)
					if refuses.Load() {
						return nil, syscall.ECONNREFUSED
					}
					return dial(ctx, network, addr)
				}
			}
			s := open(t, o)
			eventually.True(t, "it decides", func() bool { return takeOnce(t.Context(), s) == nil })
			if dials.Load() == 0 {
				t.Error("no connection was made by Via")
			}
			refuses.Store(true)
			for _, sh := range s.shards() {
				if se, fault := sh.Session(); fault == nil {
					se.End(errors.New("cut"))
				}
			}
			eventually.True(t, "it is away", func() bool { return takeOnce(t.Context(), s) != nil })
			refuses.Store(false)
			eventually.True(t, "it is back", func() bool { return takeOnce(t.Context(), s) == nil })
		})
	}
}

// A trip waits for Delay; one that is over before that is a timeout which the breaker counts,
// and takes no place for good.
func TestN6TripsAreDelayed(t *testing.T) {
	var delay atomic.Int64
	o := Options{Addr: testserver.Redis(t, testserver.RedisConfig{}).Addr, Budget: 50 * time.Millisecond, MaxInFlight: 4, Delay: func() time.Duration { return time.Duration(delay.Load()) }}
	s := open(t, o)
	eventually.True(t, "it decides", func() bool { return takeOnce(t.Context(), s) == nil })
	calls := s.Stats().Shards[0].Calls
	delay.Store(int64(time.Hour))
	for range 20 {
		if err := takeOnce(t.Context(), s); err == nil {
			t.Fatal("a take was not delayed")
		}
	}
	eventually.True(t, "the breaker counts delayed trips", func() bool { _ = takeOnce(t.Context(), s); return s.Stats().Shards[0].Failures > 0 })
	if st := s.Stats().Shards[0]; st.Calls == calls {
		t.Error("delayed trips are not counted")
	}
	delay.Store(0)
	eventually.True(t, "it decides again", func() bool { return takeOnce(t.Context(), s) == nil })
	eventually.True(t, "no place is taken", func() bool { return s.Stats().Shards[0].InFlight == 0 })
}

// A board of another name has notices of its own.
func TestBoardsAreApart(t *testing.T) {
	s, _ := openRedis(t)
	other := s.BoardOf("drill")
	for text, b := range map[string]store.Board{"one": s, "two": other} {
		if err := b.Post(t.Context(), "n1", []byte(text), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	for want, b := range map[string]store.Board{"one": s, "two": other} {
		notices, err := b.Notices(t.Context())
		if err != nil || len(notices) != 1 || string(notices["n1"]) != want {
			t.Errorf("%q, %v; want %s", notices, err, want)
		}
	}
}
