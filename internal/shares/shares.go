// Package shares keeps one address from taking all that a process has for long calls: of an
// address only so many are open at a time. Calls of an address may share something, too, such as
// room for what they have in flight. An address is that of a host, of IPv6 its /64; callers behind
// one address are one, because tokens are shared more often than addresses are.
package shares

import (
	"context"
	"sync"

	"google.golang.org/grpc/peer"

	"github.com/headgate/headgate/internal/admission"
)

// Shares are those of all addresses with calls; of others nothing is kept. Make one with New.
type Shares[T any] struct {
	most  int
	fresh func() T

	mu sync.Mutex
	of map[string]*share[T]
}

// share is what the calls of one address have.
type share[T any] struct {
	calls  int
	common T
}

// New returns Shares by which an address has at most so many calls at a time, which have what
// fresh returns in common.
func New[T any](most int, fresh func() T) *Shares[T] {
	return &Shares[T]{most: most, fresh: fresh, of: make(map[string]*share[T])}
}

// Enter counts the call of ctx, until leave is called, and returns what calls of its address have
// in common. When the address has as many as it may, ok is false, and there is nothing to
// leave.
func (s *Shares[T]) Enter(ctx context.Context) (common T, leave func(), ok bool) {
	address := addressOf(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.of[address]
	if one == nil {
		one = &share[T]{common: s.fresh()}
		s.of[address] = one
	}
	if one.calls >= s.most {
		return common, nil, false
	}
	one.calls++
	return one.common, func() { s.leave(address, one) }, true
}

func (s *Shares[T]) leave(address string, one *share[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.calls--; one.calls == 0 {
		delete(s.of, address)
	}
}

// addressOf returns from where the call of ctx comes, without the port.
func addressOf(ctx context.Context) string {
	from, ok := peer.FromContext(ctx)
	if !ok || from.Addr == nil {
		return ""
	}
	text := from.Addr.String()
	if address, ok := admission.RemoteAddress(text); ok {
		return address
	}
	return text // of a socket of this machine
}
