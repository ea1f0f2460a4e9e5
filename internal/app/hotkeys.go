package app

import (
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/hotkey"
)

// hotLines bounds the log lines about hot keys: who attacks with ever new keys
// shall not write the log.
var hotLines = limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 10, Period: time.Minute})

// hotReporter tells logs and metrics which keys are hot.
type hotReporter struct {
	metrics *telemetry.Metrics
	logger  *slog.Logger

	mu struct {
		sync.Mutex
		lines limit.State
		// untold is the number of hot keys since the last line that got none.
		untold int
	}
}

// report notes that an exact bucket of rule is hot now; where the rule allows it
// the bucket is leased. The key is a hash: who holds the key can compute it,
// nobody can go back.
func (r *hotReporter) report(rule string, key hotkey.Key, rate float64) {
	r.metrics.HotKey(rule)
	untold, ok := r.mayTell(limit.MicrosOf(time.Now()))
	if !ok {
		return
	}
	r.logger.Info("a key is hot", "rule", rule, "key_hash", hex.EncodeToString(key[:]), "per_second", int64(rate), "others_since", untold)
}

// mayTell reports whether a line may be written at now, and how many were not
// since the last.
func (r *hotReporter) mayTell(now limit.Micros) (untold int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	state, d := limit.Decide(hotLines, r.mu.lines, now, 1)
	r.mu.lines = state
	if !d.Allowed {
		r.mu.untold++
		return 0, false
	}
	untold, r.mu.untold = r.mu.untold, 0
	return untold, true
}
