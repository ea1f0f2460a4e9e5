package adminapi

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/internal/problems"
)

const (
	// maxRemembered and rememberFor bound the requests whose answers are remembered.
	maxRemembered = 10_000
	rememberFor   = 10 * time.Minute
	// maxRememberedBytes bounds the answers together: of the usual one the 10,000 have
	// 20 MiB.
	maxRememberedBytes = 64 << 20
	// maxIdempotencyKey bounds the name of a request, in bytes.
	maxIdempotencyKey = 255
)

const idempotencyField = "Idempotency-Key"

// memory remembers the answers to requests that have a name, so that one that is
// sent again is answered again and not done again. It is that of one process.
type memory struct {
	mu struct {
		sync.Mutex
		answers map[memoryKey]*remembered
		order   []*remembered // the oldest first
		bytes   int
	}
}

type memoryKey struct{ actor, name string }

type remembered struct {
	key     memoryKey
	request [sha256.Size]byte
	answer  *answer // nil while it is being done
	at      time.Time
	dropped bool
}

func (r *remembered) size() int {
	if r.answer == nil {
		return 0
	}
	return len(r.answer.body)
}

func newMemory() *memory {
	m := &memory{}
	m.mu.answers = map[memoryKey]*remembered{}
	return m
}

// once does what c asks for unless that was done before under the same name. What
// failed for a reason of ours is not remembered: it is to be tried again.
func (m *memory) once(c *call, do func() (*answer, error)) (*answer, error) {
	values := c.request.Header.Values(idempotencyField)
	if len(values) == 0 {
		return do()
	}
	name := values[0]
	if len(values) > 1 || name == "" || len(name) > maxIdempotencyKey || !ascii.IsPrintable(name) {
		return nil, badField(http.StatusBadRequest, idempotencyField, "not one name of 1 to %d letters of ASCII", maxIdempotencyKey)
	}
	r := &remembered{key: memoryKey{c.who.actor, name}, request: fingerprint(c), at: c.now}
	if before, err := m.begin(r); err != nil || before != nil {
		return before, err
	}
	done := false
	defer func() {
		if !done {
			m.forget(r)
		}
	}()
	a, err := do()
	kept := a
	if err != nil {
		bad, ours := problemOf(err)
		if ours || bad.Status >= http.StatusInternalServerError {
			return nil, err
		}
		kept = bad.answer()
	}
	m.finish(r, kept)
	done = true
	return a, err
}

// answer is what is remembered of a problem.
func (p *problem) answer() *answer {
	a, err := jsonAnswer(p.Status, p)
	if err != nil {
		panic(err) // strings and integers only
	}
	maps.Copy(a.header, p.header)
	a.header.Set("Content-Type", problems.MediaType)
	return a
}

// fingerprint tells requests apart that have one name. It is kept in place of the
// request, which may hold an API key.
func fingerprint(c *call) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, part := range []string{
		c.request.Method, c.request.URL.EscapedPath(), c.request.URL.RawQuery,
		c.request.Header.Get("If-Match"), c.request.Header.Get("If-None-Match"), string(c.body),
	} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	h.Sum(sum[:0])
	return sum
}

// begin returns the answer to the same request, or notes r as being done.
func (m *memory) begin(r *remembered) (*answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expireLocked(r.at)
	before := m.mu.answers[r.key]
	switch {
	case before == nil:
		m.mu.answers[r.key] = r
		m.mu.order = append(m.mu.order, r)
		return nil, nil
	case before.request != r.request:
		return nil, badField(http.StatusUnprocessableEntity, idempotencyField, "another request had this name; hint: a new name for each request")
	case before.answer == nil:
		return nil, fail(http.StatusConflict, "the request of this %s is being done", idempotencyField).with("Retry-After", "1")
	}
	return before.answer, nil
}

func (m *memory) finish(r *remembered, a *answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.answer = a; !r.dropped {
		m.mu.bytes += r.size()
	}
	m.expireLocked(r.at)
}

func (m *memory) forget(r *remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropLocked(r)
}

// dropLocked leaves r in the order, where expireLocked takes it out.
func (m *memory) dropLocked(r *remembered) {
	if !r.dropped {
		r.dropped = true
		m.mu.bytes -= r.size()
		delete(m.mu.answers, r.key)
	}
}

// expireLocked makes room: for what is too old, and for what is too much.
func (m *memory) expireLocked(now time.Time) {
	for len(m.mu.order) > 0 {
		oldest := m.mu.order[0]
		if !oldest.dropped && now.Sub(oldest.at) < rememberFor && len(m.mu.order) <= maxRemembered && m.mu.bytes <= maxRememberedBytes {
			return
		}
		m.dropLocked(oldest)
		m.mu.order[0] = nil
		m.mu.order = m.mu.order[1:]
	}
}
