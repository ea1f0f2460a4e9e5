package lease

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"time"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/hotkey"
)

// nameAgain is how long after it was named a key that is still hot, or hot
// again, is named once more.
const nameAgain = time.Minute

func (s *Store) hash(key []byte) uint64 { return maphash.Bytes(s.seed, key) }

// isHot notes asks for the key of an exact take, names it if it is hot, and says
// whether its bucket is to be leased. No asks only look. It is asks that count and
// not hits, because asks are what the store has to answer.
func (s *Store) isHot(t *store.Take, hash uint64, asks int64, at time.Time) bool {
	var key hotkey.Key
	binary.LittleEndian.PutUint64(key[:], hash)
	binary.LittleEndian.PutUint64(key[8:], ^hash)
	if !s.hot.Observe(key, asks, at) {
		return false
	}
	if s.onHot != nil {
		if last, found := s.named.Load(key); !found || at.Sub(last.(time.Time)) >= nameAgain {
			s.name(t, key, at)
		}
	}
	return t.Mode.AutoLease
}

// Note counts asks for the key of t that were answered above, from what the store had
// said before: an attack on a key whose denial is remembered makes it hot too.
func (s *Store) Note(t *store.Take, asks int64) {
	if s.hot == nil || t.Mode == nil || t.Mode.Consistency != store.Exact || !followed(t.Limit) {
		return
	}
	s.isHot(t, s.hash(t.Key), asks, s.clock.Now())
}

// isHotNow is isHot within a call, in which every take is noted once.
func (s *Store) isHotNow(c *call, t *store.Take, hash uint64) bool {
	if c.again {
		return true // or it would not have waited for a lease
	}
	if c.at.IsZero() {
		c.at = s.clock.Now()
	}
	asks := int64(0)
	if !c.observed {
		asks = 1
	}
	return s.isHot(t, hash, asks, c.at)
}

// name tells Options.OnHot of a hot key, by a hash that is the same on every
// node. It forgets when keys were named that have cooled, so that no more are
// remembered than the detector tracks.
func (s *Store) name(t *store.Take, key hotkey.Key, at time.Time) {
	s.naming.Lock()
	defer s.naming.Unlock()
	if last, found := s.named.Load(key); found && at.Sub(last.(time.Time)) < nameAgain {
		return // by another call
	}
	rate := 0.0
	hot := make(map[hotkey.Key]bool)
	for _, h := range s.hot.Hot(at) {
		hot[h.Key] = true
		if h.Key == key {
			rate = h.Rate
		}
	}
	s.named.Range(func(k, _ any) bool {
		if !hot[k.(hotkey.Key)] {
			s.named.Delete(k)
		}
		return true
	})
	s.named.Store(key, at)
	sum := sha256.Sum256(t.Key)
	s.onHot(t, hotkey.Key(sum[:16]), rate)
}
