package streamfront

import (
	"context"
	"net"
	"sync"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/peer"
)

// What the calls from one address may take of a process, so that others have the rest.
const (
	addressStreams = maxStreams / 2
	addressRoom    = processRoom / 2
)

// share is what the calls from one address have of a process.
type share struct {
	address string
	streams int
	room    *semaphore.Weighted
	line    *semaphore.Weighted
}

// shares are those of all addresses with calls. The zero value has none.
type shares struct {
	mu sync.Mutex
	of map[string]*share
}

// enter counts a call in the share of its address; nil says that it has as many as it may.
func (s *shares) enter(address string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.of[address]
	if one == nil {
		one = &share{address: address, room: semaphore.NewWeighted(addressRoom), line: newLine()}
		if s.of == nil {
			s.of = make(map[string]*share)
		}
		s.of[address] = one
	}
	if one.streams == addressStreams {
		return nil
	}
	one.streams++
	return one
}

// leave takes a call out of its share.
func (s *shares) leave(one *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.streams--; one.streams == 0 {
		delete(s.of, one.address)
	}
}

// addressOf returns from where the call of ctx comes, without the port.
func addressOf(ctx context.Context) string {
	from, ok := peer.FromContext(ctx)
	if !ok || from.Addr == nil {
		return ""
	}
	if host, _, err := net.SplitHostPort(from.Addr.String()); err == nil {
		return host
	}
	return from.Addr.String()
}
