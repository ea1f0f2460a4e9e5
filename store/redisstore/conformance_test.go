package redisstore

import (
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/storetest"
)

// Under the race detector it is one program: the store does the same with each.
//
//promise:stores
func TestConformance(t *testing.T) {
	programs := testserver.RedisPrograms
	t.Run(programs[0], func(t *testing.T) { testConformance(t, programs[0], true) })
	if racetest.Enabled {
		return
	}
	for _, program := range programs[1:] {
		t.Run(program, func(t *testing.T) { testConformance(t, program, true) })
	}
	t.Run("text", func(t *testing.T) { testConformance(t, programs[0], false) })
}

func testConformance(t *testing.T, program string, packs bool) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		s := openURL(t, testserver.Redis(t, testserver.RedisConfig{Program: program}).URL())
		s.packs.Store(packs)
		var now atomic.Int64
		h := storetest.Harness{Store: s, SetNow: func(m limit.Micros) { now.Store(int64(m)) }, Forgets: packs}
		clock := func() limit.Micros { return limit.Micros(now.Load()) }
		if packs {
			setWorld(t, s, clock)
			h.State = func(key string) limit.State { return worldState(t, s, key) }
			return h
		}
		setClock(t, s, clock)
		h.State = func(key string) limit.State {
			b, err := s.Lookup(t.Context(), []byte(key))
			if err != nil {
				t.Error(err)
			}
			return b.State
		}
		return h
	})
}
