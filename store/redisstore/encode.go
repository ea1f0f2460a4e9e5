package redisstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
	"unsafe"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// hashBytes is how much of the SHA-256 of a key is in its name.
	hashBytes = 16
	// maxKeys bounds the takes of one script call, weighed by costOf, so that a
	// call stays below 100 microseconds of Redis's time, in which it serves no
	// other: measured are 4 for each plain take. A larger batch is split. A group
	// of all-or-nothing is never split, however large.
	maxKeys = 16
	// scanned is the number of keys up to which looking through them is cheaper
	// than a map.
	scanned = 16
	// keptBytes bounds the buffers that are kept for other calls.
	keptBytes = 64 << 10
	// codeCalendar is the algorithm of the script for calendar windows.
	codeCalendar = 100
	// maxInstant is the last instant that limit tells apart.
	maxInstant = 1 << 52
)

// keyHash is the part of a bucket's name that depends on its key.
type keyHash [hashBytes]byte

func hashOf(key []byte) keyHash {
	sum := sha256.Sum256(key)
	return keyHash(sum[:hashBytes])
}

// The form of the script's argument; head.lua and take.lua have the words.
const (
	// takeBytes is the length of what all takes have in a script where each has
	// its limit.
	takeBytes = 30
	// calendarZero is what stands for 1970 in the edges of a calendar.
	calendarZero = 1 << 48

	flagEdges    = 1
	flagPrevious = 2
	flagDryRun   = 4
	flagPacks    = 8

	// How a limit counts, in bits; the Carry is the second and third.
	flagCountDenied = 1
	flagShare       = 2
	flagMaxDebt     = 8

	// What a take is told of the other takes of its bucket.
	ownBucket    = 0 // none
	sharedBucket = 1
	groupBucket  = 2 // none, but it is in a group

	// The places of a take in its group. Those of a group that comes several
	// times are higher by repeated.
	alone       = 0
	inGroup     = 1
	lastOfGroup = 2
	repeated    = 2

	// The first bytes of records. A take that needs more words begins with its
	// Op.
	recordLimit  = 4
	recordGroup  = 5 // inGroup, and one more is lastOfGroup
	recordLikely = 7 // see likely.lua; with nothing after it, a limit that was said before
	recordPlain  = 8 // and as many more as there are hits
	maxPlain     = 255 - recordPlain

	// maxTimes bounds the takes of one operation, so that all their hits, 2^50
	// each, are below 2^63.
	maxTimes    = 1 << 12
	noOperation = -1
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
	// ops are what the script does, opOf[i] which of them take i is part of.
	ops  []operation
	opOf []int
	// tells says that the script tells the previous counts of sliding windows.
	tells bool
	// packs says that the script may write window counters that are one integer, guesses that
	// hits on them are likely to pass where nothing is rare about them.
	packs, guesses bool
	// said are the limits of the records so far, now the one of the last record.
	said []*limit.Limit
	now  *limit.Limit
	// counting is one of which is known that it is countable; nil if there is none.
	counting *limit.Limit
	// later are the operations of which the answers stand behind all others.
	later []int
}

// bucketKey is a distinct key of a request.
type bucketKey struct {
	hash keyHash
	// shared says that it has several takes, or one in a group; sharing tells
	// these apart, by operations.
	shared  bool
	sharing byte
	// last is the last of its operations so far.
	last int
}

// operation is one take, or several that say the same and come one after the
// other, as far as their buckets can tell.
type operation struct {
	take  int // the first of them
	slot  int
	group byte
	// length is the number of operations of its group, in the first of them if
	// the group may come several times.
	length int
	times  int
	// state is that of the bucket before the first of several; or after the only
	// one, if the script tells enough. Where it is remembered, left is how long it lasts.
	state limit.State
	left  time.Duration
	// likely says that it was guessed to pass.
	likely bool
}

var requests = sync.Pool{New: func() any { return new(request) }}

// release makes r available to other calls.
func (r *request) release() {
	r.tells, r.guesses = false, false
	clear(r.said)
	r.said, r.now, r.counting = r.said[:0], nil, nil
	if cap(r.buf) <= keptBytes {
		requests.Put(r)
	}
}

// takeBody is the body of a call that decides takes.
type takeBody struct {
	prefix  string
	takes   []store.Take
	results []store.Result
	request *request
	// memory, if not nil, is told of the states that the server of that history
	// is left with.
	memory  *memory
	history uint32
	packs   bool  // as in request
	luck    *luck // of the store
}

// encode implements body.
func (b *takeBody) encode(h header) (keys, args []string) {
	if b.request == nil {
		b.request = requests.Get().(*request)
	}
	b.history, b.request.tells = h.history, b.memory != nil && !b.takes[0].DryRun
	b.request.packs, b.request.guesses = b.packs, b.packs && b.luck.likely() && !b.takes[0].DryRun
	return b.request.encode(b.prefix, h, b.takes)
}

// decode implements body: it fills the results.
func (b *takeBody) decode(answer []resp.Message, number uint32) (head, error) {
	h, err := b.request.decode(answer, number, b.takes, b.results)
	if err == nil && h.status == statusDecided {
		b.remember()
		if b.packs {
			b.luck.learn(b.request.ops, b.takes, b.results)
		}
		b.request.release()
		b.request = nil
	}
	return h, err
}

// remember notes the states of the buckets after the call.
func (b *takeBody) remember() {
	if !b.request.tells {
		return
	}
	local := time.Now()
	for i := range b.request.ops {
		op := &b.request.ops[i]
		key, l := &b.request.keys[op.slot-1], b.takes[op.take].Limit
		if key.sharing == sharedBucket || !merges(l) {
			// What one of several takes of a group that was held back says is
			// not what is left.
			continue
		}
		b.memory.note(&key.hash, b.history, l, &op.state, local, op.left)
	}
}

// header is what the script is told before the takes.
type header struct {
	now      limit.Micros // 0 means Redis's own clock
	deadline limit.Micros // 0 means none
	number   uint32
	// wall is what Redis's clock shows about now, for the calendars.
	wall limit.Micros
	// history is that of the server; the script is not told.
	history uint32
}

// encode builds the command: the returned slices are KEYS and ARGV of the
// script, valid until r is released or encoded again.
func (r *request) encode(prefix string, h header, takes []store.Take) (keys, args []string) {
	r.buf = r.buf[:0]
	r.number(takes)
	r.plan(takes)
	for i := range r.keys {
		r.buf = append(r.buf, prefix...)
		r.buf = append(r.buf, r.keys[i].hash[:]...)
	}
	r.header(h, takes)
	r.records(takes, h.wall)
	r.cut(len(prefix) + hashBytes)
	return r.args[:len(r.keys)], r.args[len(r.keys):]
}

// header writes what stands before the takes.
func (r *request) header(h header, takes []store.Take) {
	r.int(int64(min(h.now, maxInstant)))
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
	flags := byte(0)
	if r.tells {
		flags |= flagPrevious
	}
	if takes[0].DryRun {
		flags |= flagDryRun
	}
	if r.packs {
		flags |= flagPacks
	}
	if known {
		flags |= flagEdges
	}
	if r.buf = append(r.buf, flags); known {
		r.int(int64(from) + calendarZero)
		r.int(int64(to) + calendarZero)
	}
}

// number gives each distinct key a number, in the order of their first takes.
func (r *request) number(takes []store.Take) {
	r.keys, r.of = r.keys[:0], r.of[:0]
	clear(r.slots)
	for i := range takes {
		if i > 0 && bytes.Equal(takes[i].Key, takes[i-1].Key) {
			slot := r.of[i-1]
			r.keys[slot-1].shared = true
			r.of = append(r.of, slot)
			continue
		}
		hash := hashOf(takes[i].Key)
		slot, ok := r.find(hash)
		if !ok {
			r.keys = append(r.keys, bucketKey{hash: hash, last: noOperation})
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

// take writes take i of takes, which is in no group, for a script where each has its
// limit.
func (r *request) take(takes []store.Take, i int, wall limit.Micros) {
	t, slot := &takes[i], r.of[i]
	r.buf = append(r.buf, byte(min(t.Op, store.Charge)), alone)
	r.bool(t.Shadow)
	r.bool(r.keys[slot-1].shared)
	r.buf = append(r.buf, byte(slot>>16), byte(slot>>8), byte(slot))
	r.algorithm(t.Limit)
	r.int(min(max(t.Hits, 0), limit.MaxQuota))
	r.limit(t.Limit, wall)
}

// algorithm writes how a limit counts.
func (r *request) algorithm(l *limit.Limit) {
	code := byte(1 + l.Algorithm)
	if l.Calendar != nil {
		code = codeCalendar
	}
	flags := byte(l.Carry) * flagShare
	if l.CountDenied {
		flags |= flagCountDenied
	}
	if l.MaxDebt > 0 {
		flags |= flagMaxDebt
	}
	r.buf = append(r.buf, code, flags)
}

// limit writes the rest of a limit.
func (r *request) limit(l *limit.Limit, wall limit.Micros) {
	switch {
	case l.Calendar != nil:
		r.int(l.Quota)
		r.int(int64(l.Calendar.Unit))
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
		r.int(l.PeriodMicros())
	case l.Algorithm == limit.Ban:
		r.int(l.Quota)
		r.int(l.PeriodMicros())
		r.int(l.BanMicros())
	default:
		r.int(l.Quota)
		r.int(l.PeriodMicros())
	}
	if l.MaxDebt > 0 {
		r.int(l.MaxDebt)
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

// name writes the name of a bucket, or of what belongs to it.
func (r *request) name(prefix string, hash *keyHash, suffix string) {
	r.buf = append(append(append(r.buf, prefix...), hash[:]...), suffix...)
}

// cutTwo makes the strings as cut does, where data names are followed by two arguments, the second
// of which begins at fields: the names of the buckets have the given length, and those behind them
// so many bytes more.
func (r *request) cutTwo(name, more, data, fields int) (keys, args []string) {
	text := unsafe.String(unsafe.SliceData(r.buf), len(r.buf))
	r.args = r.args[:0]
	for at, n := 0, 0; at < data; at += n {
		if n = name; len(r.args) >= len(r.keys) {
			n += more
		}
		r.args = append(r.args, text[at:at+n])
	}
	r.args = append(r.args, text[data:fields], text[fields:])
	last := len(r.args) - 2
	return r.args[:last], r.args[last:]
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
