package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"
)

const (
	// maxSessions bounds the logins that are remembered, with a token of 16 KiB each
	// at most. Of more the oldest ends.
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

// begin makes a session and returns the name that its browser keeps.
func (s *sessions) begin(token func(context.Context) string, now time.Time) (name string, made *session) {
	var id [sessionBytes]byte
	rand.Read(id[:]) // never fails
	name = base64.RawURLEncoding.EncodeToString(id[:])
	made = &session{token: token, expires: now.Add(s.lasts), key: keyOf(name)}
	made.ended, made.end = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trimLocked(now)
	s.mu.byKey[made.key] = made
	s.mu.order = append(s.mu.order, made)
	return name, made
}

// trimLocked drops what has ended, and the oldest where there is no room for one more.
func (s *sessions) trimLocked(now time.Time) {
	kept := s.mu.order[:0]
	for _, old := range s.mu.order {
		if old.ended.Err() == nil && now.Before(old.expires) {
			kept = append(kept, old)
		} else {
			s.dropLocked(old)
		}
	}
	if extra := len(kept) - (maxSessions - 1); extra > 0 {
		for _, old := range kept[:extra] {
			s.dropLocked(old)
		}
		kept = kept[:copy(kept, kept[extra:])]
	}
	clear(s.mu.order[len(kept):])
	s.mu.order = kept
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
