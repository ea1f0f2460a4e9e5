package identity

import (
	"crypto/sha256"
	"sync"
)

const (
	// DefaultTokenCache is how many verified tokens are remembered.
	DefaultTokenCache = 4096
	// maxTokenCache bounds TokenOptions.Cache: each token holds its claims, some
	// kilobytes at most.
	maxTokenCache = 1 << 20

	tokenShards = 16
)

// tokenCache remembers tokens whose signature was found good, by their SHA-256:
// checking a signature costs a hundred times as much. Only good tokens enter, so
// nobody can push them out with inventions. Whether a token is in force is not
// remembered.
//
// Each shard has two generations: a token that is used moves to the young one,
// and when that is full it becomes the old one, whose tokens are forgotten.
type tokenCache struct {
	shards [tokenShards]tokenShard
	// size bounds one generation of one shard; 0 remembers nothing.
	size int
}

type tokenShard struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]cachedToken
}

// cachedToken is a token with the keys that it was verified with: with other keys
// in force it is verified again, as its key may have been withdrawn.
type cachedToken struct {
	token *Token
	ring  *keyring
}

func newTokenCache(tokens int) *tokenCache {
	return &tokenCache{size: (tokens + 2*tokenShards - 1) / (2 * tokenShards)}
}

// get returns the token of that hash if it was verified with these keys.
func (c *tokenCache) get(sum [sha256.Size]byte, ring *keyring) *Token {
	s := &c.shards[sum[0]%tokenShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.young[sum]
	if !ok {
		if found, ok = s.old[sum]; !ok || found.ring != ring {
			return nil
		}
		s.putLocked(sum, found, c.size)
	}
	if found.ring != ring {
		return nil
	}
	return found.token
}

// put remembers a token.
func (c *tokenCache) put(sum [sha256.Size]byte, t *Token, ring *keyring) {
	if c.size == 0 {
		return
	}
	s := &c.shards[sum[0]%tokenShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(sum, cachedToken{t, ring}, c.size)
}

func (s *tokenShard) putLocked(sum [sha256.Size]byte, t cachedToken, size int) {
	if _, ok := s.young[sum]; !ok && len(s.young) >= size {
		s.young, s.old = nil, s.young
	}
	if s.young == nil {
		s.young = map[[sha256.Size]byte]cachedToken{}
	}
	s.young[sum] = t
}
