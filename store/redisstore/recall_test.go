package redisstore

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// What a node recalls of a bucket is what it would be told, also by a clock that is an
// hour off, and also of hits by another node. Of what it cannot know it says nothing.
func TestRecall(t *testing.T) {
	a, server := openRedis(t)
	b := openURL(t, server.URL())
	for i, spec := range narrowSpecs {
		l, key := limit.Must(spec), string(rune('a'+i))
		admitted(t, b, key, l, 4)
		if _, ok := a.Recall([]byte(key), l, 0); ok {
			t.Errorf("%v: something is known of a bucket that was never asked for", spec)
		}
		admitted(t, a, key, l, 2)
		for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
			if off != 0 && (spec.Algorithm == limit.FixedWindow || spec.Algorithm == limit.SlidingWindow) {
				continue // windows stand where the clocks have them
			}
			now := limit.MicrosOf(time.Now().Add(off))
			state, ok := a.Recall([]byte(key), l, now)
			if _, d := limit.Decide(l, state, now, 0); !ok || d.Remaining != 4 {
				t.Errorf("%v, %v off: %v, %+v is known, of which %d are left, want 4", spec, off, ok, state, d.Remaining)
			}
		}
		other := spec
		other.Period *= 2
		if _, ok := a.Recall([]byte(key), limit.Must(other), limit.MicrosOf(time.Now())); ok {
			t.Errorf("%v: the state is taken for one of another period", spec)
		}
		takeAll(a, store.Take{Key: []byte(key), Limit: l, Op: store.Reset})
		if state, ok := a.Recall([]byte(key), l, limit.MicrosOf(time.Now())); ok {
			t.Errorf("%v: %+v is known after a reset", spec, state)
		}
	}
	log := limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 10, Period: time.Hour})
	admitted(t, a, "log", log, 5)
	if _, ok := a.Recall([]byte("log"), log, 0); ok {
		t.Error("a wide state is known")
	}
}

func TestRecallOfBans(t *testing.T) {
	s, _ := openRedis(t)
	ban := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 3, Period: time.Hour, BanFor: 5 * time.Hour})
	for denials, want := range map[int64]int64{2: 1, 3: 0} {
		key := string(rune('a' + denials))
		takeAll(s, store.Take{Key: []byte(key), Limit: ban, Hits: denials, Op: store.Charge})
		now := limit.MicrosOf(time.Now().Add(time.Hour))
		state, ok := s.Recall([]byte(key), ban, now)
		_, d := limit.Decide(ban, state, now, 1)
		if !ok || d.Remaining != want || d.Allowed != (want > 0) {
			t.Errorf("after %d of 3 denials: %v, %+v says %+v", denials, ok, state, d)
		}
	}
}
