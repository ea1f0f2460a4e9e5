package redisstore

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"unsafe"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// hashBytes is how much of the SHA-256 of a key is in its name.
	hashBytes = 16
	// maxKeys bounds the takes of one script call, weighed by costOf, so that a
	// call stays below 100 microseconds of Redis's time, in which it serves no
	// other: measured are 4 to 5 for each plain take. A larger batch is split. A
	// group of all-or-nothing is never split, however large.
	maxKeys = 16
	// scanned is the number of keys up to which looking through them is cheaper
	// than a map.
	scanned = 16
	// keptBytes bounds the buffers that are kept for other calls.
	keptBytes = 64 << 10
	// codeCalendar is the algorithm of the script for calendar windows.
	codeCalendar = 9
	// maxInstant is the last instant that limit tells apart.
	maxInstant = 1 << 52
)

// keyHash is the part of a bucket's name that depends on its key.
type keyHash [hashBytes]byte

func hashOf(key []byte) keyHash {
	sum := sha256.Sum256(key)
	return keyHash(sum[:hashBytes])
}

// The form of the script's argument; head.lua has the words.
const (
	// takeBytes is the length of what all takes have.
	takeBytes = 30
	// calendarZero is what stands for 1970 in the edges of a calendar.
	calendarZero = 1 << 48

	alone       = 0
	inGroup     = 1
	lastOfGroup = 2
)

// request is the command of one script call in the making. The names of its
// keys and its argument lie end to end in one buffer that is used again and
// again.
type request struct {
	buf  []byte
	args []string
	keys []bucketKey
	// slots finds the key of a large batch; empty while there are few.
	slots map[keyHash]int
	// of[i] is the 1-based number of the key of take i.
	of []int
}

// bucketKey is a distinct key of a request.
type bucketKey struct {
	hash keyHash
	// shared says that it has several takes, or one in a group.
	shared bool
}

var requests = sync.Pool{New: func() any { return new(request) }}

// release makes r available to other calls. It must not be called while the
// client may still read the strings.
func (r *request) release() {
	if cap(r.buf) <= keptBytes {
		requests.Put(r)
	}
}

// header is what the script is told before the takes.
type header struct {
	now      limit.Micros // 0 means Redis's own clock
	deadline limit.Micros // 0 means none
	number   uint32
	// wall is what Redis's clock shows about now, for the calendars.
	wall limit.Micros
}

// encode builds the command: the returned slices are KEYS and ARGV of the
// script, valid until r is released or encoded again.
func (r *request) encode(prefix string, h header, takes []store.Take) (keys, args []string) {
	r.buf = r.buf[:0]
	r.number(takes)
	for i := range r.keys {
		r.buf = append(r.buf, prefix...)
		r.buf = append(r.buf, r.keys[i].hash[:]...)
	}
	r.header(h, takes)
	for i := range takes {
		r.take(takes, i, h.wall)
	}
	r.cut(len(prefix) + hashBytes)
	return r.args[:len(r.keys)], r.args[len(r.keys):]
}

// header writes what stands before the takes.
func (r *request) header(h header, takes []store.Take) {
	now := int64(0)
	if h.now != 0 {
		now = int64(min(max(h.now, 1), maxInstant))
	}
	r.int(now)
	r.int(int64(max(h.deadline, 0)))
	r.buf = binary.BigEndian.AppendUint32(r.buf, h.number)
	known := false
	var from, to limit.Micros
	for i := range takes {
		if takes[i].Limit.Calendar == nil {
			continue
		}
		edges := takes[i].Limit.Calendar.Around(h.wall)
		if !known {
			known, from, to = true, edges[0], edges[3]
		}
		from, to = max(from, edges[0]), min(to, edges[3])
	}
	r.bool(known)
	if known {
		r.int(int64(from) + calendarZero)
		r.int(int64(to) + calendarZero)
	}
}

// number gives each distinct key a number, in the order of their first takes.
func (r *request) number(takes []store.Take) {
	r.keys, r.of = r.keys[:0], r.of[:0]
	clear(r.slots)
	for i := range takes {
		hash := hashOf(takes[i].Key)
		slot, ok := r.find(hash)
		if !ok {
			r.keys = append(r.keys, bucketKey{hash: hash})
			slot = len(r.keys)
			r.remember(hash, slot)
		}
		if ok || takes[i].Group != 0 {
			r.keys[slot-1].shared = true
		}
		r.of = append(r.of, slot)
	}
}

func (r *request) find(hash keyHash) (int, bool) {
	if len(r.keys) > scanned {
		slot, ok := r.slots[hash]
		return slot, ok
	}
	for i := range r.keys {
		if r.keys[i].hash == hash {
			return i + 1, true
		}
	}
	return 0, false
}

// remember enters a key into the map, and all before it once there are many.
func (r *request) remember(hash keyHash, slot int) {
	switch {
	case slot <= scanned:
	case slot == scanned+1:
		if r.slots == nil {
			r.slots = make(map[keyHash]int)
		}
		for i := range r.keys {
			r.slots[r.keys[i].hash] = i + 1
		}
	default:
		r.slots[hash] = slot
	}
}

// take writes take i of takes.
func (r *request) take(takes []store.Take, i int, wall limit.Micros) {
	t, slot := &takes[i], r.of[i]
	group := byte(alone)
	if t.Group != 0 {
		group = inGroup
		if i+1 == len(takes) || takes[i+1].Group != t.Group {
			group = lastOfGroup
		}
	}
	r.buf = append(r.buf, byte(min(t.Op, store.Reset)), group)
	r.bool(t.Shadow)
	r.bool(r.keys[slot-1].shared)
	r.buf = append(r.buf, byte(slot>>16), byte(slot>>8), byte(slot))
	r.limit(t.Limit, min(max(t.Hits, 0), limit.MaxQuota), wall)
}

// limit writes the rest of a take: the hits and the limit.
func (r *request) limit(l *limit.Limit, hits int64, wall limit.Micros) {
	code := byte(1 + l.Algorithm)
	if l.Calendar != nil {
		code = codeCalendar
	}
	r.buf = append(r.buf, code)
	r.bool(l.CountDenied)
	r.int(hits)
	switch {
	case l.Calendar != nil:
		r.int(l.Quota)
		r.int(0)
		for _, edge := range l.Calendar.Around(wall) {
			r.int(int64(edge) + calendarZero)
		}
	case l.Algorithm == limit.SubWindows:
		r.int(l.Quota)
		r.int(l.PartMicros())
		r.buf = append(r.buf, byte(l.SubWindows))
		r.bool(l.Strict)
	case l.Algorithm.IsBucket():
		num, den := l.EmissionInterval()
		whole, part := l.Tolerance()
		r.int(l.Capacity())
		r.int(num)
		r.int(den)
		r.int(whole)
		r.int(part)
	default:
		r.int(l.Quota)
		r.int(l.PeriodMicros())
	}
}

// int writes a number of seven bytes, the high one first; 0 <= n < 2^56.
func (r *request) int(n int64) {
	r.buf = append(r.buf, byte(n>>48), byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func (r *request) bool(b bool) {
	if b {
		r.buf = append(r.buf, 1)
	} else {
		r.buf = append(r.buf, 0)
	}
}

// cut makes the strings, without copying: the buffer does not change until the
// request is released. Names have the given length.
func (r *request) cut(name int) {
	text := unsafe.String(unsafe.SliceData(r.buf), len(r.buf))
	r.args = r.args[:0]
	for range r.keys {
		r.args = append(r.args, text[:name])
		text = text[name:]
	}
	r.args = append(r.args, text)
}
