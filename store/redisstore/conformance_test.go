package redisstore

import (
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/storetest"
)

func TestConformance(t *testing.T) {
	for _, program := range testserver.RedisPrograms {
		t.Run(program, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Harness {
				s := openURL(t, testserver.Redis(t, testserver.RedisConfig{Program: program}).URL())
				var now atomic.Int64
				setClock(t, s, func() limit.Micros { return limit.Micros(now.Load()) })
				return storetest.Harness{
					Store:  s,
					SetNow: func(m limit.Micros) { now.Store(int64(m)) },
					State: func(key string) limit.State {
						b, err := s.Lookup(t.Context(), []byte(key))
						if err != nil {
							t.Error(err)
						}
						return b.State
					},
				}
			})
		})
	}
}
