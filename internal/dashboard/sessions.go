package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"sync"
	"time"
)

const (
	// maxSessions bounds the logins that are remembered, with a token of 16 KiB each
	// at most. Of more, the actor with the most sessions loses the oldest of them.
	maxSessions = 1024
	// sessionBytes are those of the name of a session: nobody guesses 256 bits.
	sessionBytes = 32
)

// session is a login.
type session struct {
	// token returns that of the admin API, which stands in the header of requests to it
	// and nowhere else. It is a function so that nothing that prints a session shows it, and
	// because an issuer may renew it.
	token   func(context.Context) string
	expires time.Time
	// actor is who logged in, as the admin API has it.
	actor string
	// ended is done when the session has ended before its time.
	ended context.Context
	end   context.CancelFunc
	key   sessionKey
}

// sessionKey is the SHA-256 of the name of a session: so the time that a look-up takes
// tells nothing of names.
type sessionKey [sha256.Size]byte

func keyOf(name string) sessionKey { return sha256.Sum256([]byte(name)) }

// sessions are those that last. The zero value is not usable; use newSessions.
type sessions struct {
	lasts time.Duration

	mu struct {
		sync.Mutex
		byKey map[sessionKey]*session
		order []*session // the oldest first; all last equally long
	}
}

func newSessions(lasts time.Duration) *sessions {
	s := &sessions{lasts: lasts}
	s.mu.byKey = map[sessionKey]*session{}
	return s
}

// begin makes a session of an actor and returns the name that its browser keeps.
func (s *sessions) begin(actor string, token func(context.Context) string, now time.Time) (name string, made *session) {
	var id [sessionBytes]byte
	rand.Read(id[:]) // never fails
	name = base64.RawURLEncoding.EncodeToString(id[:])
	made = &session{actor: actor, token: token, expires: now.Add(s.lasts), key: keyOf(name)}
	made.ended, made.end = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trimLocked(now)
	s.mu.byKey[made.key] = made
	s.mu.order = append(s.mu.order, made)
	return name, made
}

// trimLocked drops what has ended, and where there is no room for one more the oldest session of the actor with the most: so
// nobody ends the logins of others by many of their own.
func (s *sessions) trimLocked(now time.Time) {
	kept := s.mu.order[:0]
	count := map[string]int{}
	for _, old := range s.mu.order {
		if old.ended.Err() == nil && now.Before(old.expires) {
			kept = append(kept, old)
			count[old.actor]++
		} else {
			s.dropLocked(old)
		}
	}
	clear(s.mu.order[len(kept):])
	s.mu.order = kept
	if len(kept) < maxSessions {
		return
	}
	most := 0
	for i, old := range kept {
		if count[old.actor] > count[kept[most].actor] {
			most = i // the oldest of that actor, because the oldest come first
		}
	}
	s.dropLocked(kept[most])
	s.mu.order = slices.Delete(kept, most, most+1)
}

func (s *sessions) dropLocked(old *session) {
	old.end()
	delete(s.mu.byKey, old.key)
}

// find returns the session of a name, nil when there is none that lasts.
func (s *sessions) find(name string, now time.Time) *session {
	if name == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.mu.byKey[keyOf(name)]
	if found == nil || now.Before(found.expires) {
		return found
	}
	s.dropLocked(found)
	return nil
}

// drop ends a session, and all that is answered to it.
func (s *sessions) drop(old *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(old)
}
