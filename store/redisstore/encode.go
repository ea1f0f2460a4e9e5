package redisstore

import (
	"crypto/sha256"
	"strconv"
	"sync"
	"unsafe"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// hashBytes is how much of the SHA-256 of a key is in its name.
	hashBytes = 16
	// maxKeys bounds the takes of one script call, so that a call stays short
	// for the others that Redis serves; a larger batch is split. A group of
	// all-or-nothing is never split, however large.
	maxKeys = 64
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

// request is the command of one script call in the making. Its strings lie end
// to end in one buffer that is used again and again.
type request struct {
	buf  []byte
	ends []int // ends[i] is the end of string i in buf
	args []string
	keys []keyHash
	// slots finds the key of a large batch; empty while there are few.
	slots map[keyHash]int
	// of[i] is the 1-based number of the key of take i.
	of []int
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
	r.buf, r.ends = r.buf[:0], r.ends[:0]
	r.number(takes)
	for i := range r.keys {
		r.buf = append(r.buf, prefix...)
		r.buf = append(r.buf, r.keys[i][:]...)
		r.end()
	}
	if h.now != 0 {
		r.buf = strconv.AppendInt(r.buf, int64(min(max(h.now, 1), maxInstant)), 10)
	}
	r.end()
	r.int(int64(h.deadline))
	r.int(int64(h.number))
	for i := range takes {
		r.take(takes, i, h.wall)
	}
	r.cut()
	return r.args[:len(r.keys)], r.args[len(r.keys):]
}

// number gives each distinct key a number, in the order of their first takes.
func (r *request) number(takes []store.Take) {
	r.keys, r.of = r.keys[:0], r.of[:0]
	clear(r.slots)
	for i := range takes {
		hash := hashOf(takes[i].Key)
		slot, ok := r.find(hash)
		if !ok {
			r.keys = append(r.keys, hash)
			slot = len(r.keys)
			r.remember(hash, slot)
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
		if r.keys[i] == hash {
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
			r.slots[r.keys[i]] = i + 1
		}
	default:
		r.slots[hash] = slot
	}
}

// take writes take i of takes.
func (r *request) take(takes []store.Take, i int, wall limit.Micros) {
	t := &takes[i]
	r.int(int64(r.of[i]))
	r.buf = append(r.buf, "hrz"[min(t.Op, store.Reset)])
	switch {
	case t.Group == 0:
		r.buf = append(r.buf, '-')
	case i > 0 && takes[i-1].Group == t.Group:
		r.buf = append(r.buf, 'j')
	default:
		r.buf = append(r.buf, 'g')
	}
	if t.Shadow {
		r.buf = append(r.buf, 's')
	} else {
		r.buf = append(r.buf, '-')
	}
	r.end()
	r.int(min(max(t.Hits, 0), limit.MaxQuota))
	r.limit(t.Limit, wall)
}

// limit writes the algorithm and its numbers.
func (r *request) limit(l *limit.Limit, wall limit.Micros) {
	if l.Calendar != nil {
		r.int(codeCalendar)
		r.int(l.Quota)
		r.bool(l.CountDenied)
		for _, edge := range l.Calendar.Around(wall) {
			r.int(int64(edge))
		}
		return
	}
	r.int(1 + int64(l.Algorithm))
	switch l.Algorithm {
	case limit.SlidingWindow, limit.FixedWindow:
		r.int(l.Quota)
		r.bool(l.CountDenied)
		r.int(l.PeriodMicros())
	case limit.SubWindows:
		r.int(l.Quota)
		r.bool(l.CountDenied)
		r.int(l.PartMicros())
		r.int(int64(l.SubWindows))
		r.bool(l.Strict)
	case limit.SlidingLog:
		r.int(l.Quota)
		r.int(l.PeriodMicros())
	default:
		num, den := l.EmissionInterval()
		whole, part := l.Tolerance()
		r.int(l.Capacity())
		r.int(num)
		r.int(den)
		r.int(whole)
		r.int(part)
	}
}

// end ends a string.
func (r *request) end() { r.ends = append(r.ends, len(r.buf)) }

func (r *request) int(n int64) {
	r.buf = strconv.AppendInt(r.buf, n, 10)
	r.end()
}

func (r *request) bool(b bool) {
	if b {
		r.buf = append(r.buf, '1')
	} else {
		r.buf = append(r.buf, '0')
	}
	r.end()
}

// cut makes the strings, without copying: the buffer does not change until the
// request is released.
func (r *request) cut() {
	text := unsafe.String(unsafe.SliceData(r.buf), len(r.buf))
	r.args = r.args[:0]
	begin := 0
	for _, end := range r.ends {
		r.args = append(r.args, text[begin:end])
		begin = end
	}
}
