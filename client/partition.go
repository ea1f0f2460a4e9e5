package client

import (
	"container/list"
	"hash/maphash"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Bounds of what a Transport remembers. The partition that was idle longest
// makes room for a new one; a policy past the last is not followed, because the
// server goes on to refuse by it.
const (
	maxPartitions = 1024
	maxPaces      = 16
)

// partitionKey names requests that share their limits.
type partitionKey struct {
	scheme, host string
	// credentials is a hash: no secret is kept, and a long one takes no memory.
	credentials uint64
	custom      string
}

// partition is what is known about the limits of the requests of one key.
type partition struct {
	key     partitionKey
	element *list.Element

	mu struct {
		sync.Mutex
		sent    uint64 // requests sent
		waiting int64  // requests that wait with their units reserved
		blocked time.Time
		paces   []pace
		budget  budget
	}
}

// table holds the partitions, bounded. The zero value is empty.
type table struct {
	once sync.Once
	seed maphash.Seed

	mu struct {
		sync.Mutex
		byKey  map[partitionKey]*partition
		recent list.List // of *partition, the last used in front
	}
}

// credentialFields name the caller in a way that servers limit by.
var credentialFields = [...]string{"Authorization", "X-Api-Key", "Api-Key"}

// keyOf returns the key of a request: its origin, its credentials, and what the
// caller divides by.
func (t *table) keyOf(req *http.Request, custom string) partitionKey {
	t.once.Do(func() { t.seed = maphash.MakeSeed() })
	k := partitionKey{scheme: req.URL.Scheme, host: hostOf(req.URL.Scheme, req.URL.Host), custom: custom}
	for i, name := range credentialFields {
		for _, value := range req.Header[name] {
			k.credentials = k.credentials*31 + maphash.String(t.seed, value) + uint64(i)
		}
	}
	return k
}

// hostOf spells a host in one way: lower case, without the port that its scheme
// implies.
func hostOf(scheme, host string) string {
	switch scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return strings.ToLower(host)
}

// get returns the partition of a key.
func (t *table) get(k partitionKey) *partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.mu.byKey[k]; p != nil {
		t.mu.recent.MoveToFront(p.element)
		return p
	}
	if t.mu.byKey == nil {
		t.mu.byKey = map[partitionKey]*partition{}
	}
	if len(t.mu.byKey) == maxPartitions {
		oldest := t.mu.recent.Remove(t.mu.recent.Back()).(*partition)
		delete(t.mu.byKey, oldest.key)
	}
	p := &partition{key: k}
	p.element = t.mu.recent.PushFront(p)
	t.mu.byKey[k] = p
	return p
}

func (t *table) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.mu.byKey)
}

// admit says when a request may go out that wants to at now: when the server no
// longer asks to be left alone, and then, unless it has passed them before, when
// the policies let it. Of these the longest wait counts, that of an empty one before
// all others.
func (p *partition) admit(now time.Time, part float64, passed bool) delay {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := p.mu.blocked.Sub(now); wait > 0 {
		return delay{wait: wait, blocked: true}
	}
	var d delay
	if passed {
		return d
	}
	for i := range p.mu.paces {
		one := p.mu.paces[i].reserve(now, part)
		if one.empty && !d.empty || one.empty == d.empty && one.wait > d.wait {
			d = one
		}
	}
	if d.isVoluntary() {
		p.mu.waiting++
	}
	return d
}

// leave ends the wait of a request that is not sent. Its unit stays taken until
// the server tells new numbers.
func (p *partition) leave(holdsUnit bool) {
	if !holdsUnit {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waiting--
}

// send numbers a request that goes out now. Retries earn nothing.
func (p *partition) send(now time.Time, retry, holdsUnit bool) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if holdsUnit {
		p.mu.waiting--
	}
	p.mu.sent++
	if !retry {
		p.mu.budget.earn(now)
	}
	return p.mu.sent
}

func (p *partition) spendRetry(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.budget.spend(now)
}

// learn takes in what the answer to request number says. blocked is how long
// the server wants to be left alone.
func (p *partition) learn(l *Limits, blocked time.Duration, number uint64, now time.Time) {
	if len(l.Levels) == 0 && blocked <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := now.Add(min(blocked, maxBlock)); blocked > 0 && at.After(p.mu.blocked) {
		p.mu.blocked = at
	}
	for i := range l.Levels {
		// Bytes and concurrency are nothing that a request more or less, or
		// waiting, would change in a way that is known here.
		if level := &l.Levels[i]; level.Unit == "" {
			p.learnLocked(level, number, now)
		}
	}
}

// maxBlock bounds how long one answer keeps all requests of a partition back.
const maxBlock = 24 * time.Hour

func (p *partition) learnLocked(l *Level, number uint64, now time.Time) {
	free := -1
	for i := range p.mu.paces {
		one := &p.mu.paces[i]
		if one.name == l.Name && one.partition == l.Partition {
			one.update(l, number, p.aheadLocked(number), now)
			return
		}
		if !now.Before(one.until) {
			free = i
		}
	}
	if l.ResetAfter <= 0 {
		return
	}
	if free < 0 {
		if len(p.mu.paces) == maxPaces {
			return
		}
		p.mu.paces = append(p.mu.paces, pace{})
		free = len(p.mu.paces) - 1
	}
	// The names are parts of a longer text, the field, which is not to be kept.
	p.mu.paces[free] = pace{name: strings.Clone(l.Name), partition: strings.Clone(l.Partition)}
	p.mu.paces[free].update(l, number, p.aheadLocked(number), now)
}

// aheadLocked returns how many requests an answer does not count yet: those that
// were sent after its own, and those that wait with their units.
func (p *partition) aheadLocked(number uint64) int64 { return int64(p.mu.sent-number) + p.mu.waiting }
