package app

import (
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/headgate/headgate/internal/hotraise"
	"github.com/headgate/headgate/internal/linelimit"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/hotkey"
)

// hotLines bounds the log lines about hot keys: who attacks with ever new keys
// shall not write the log.
var hotLines = linelimit.PerMinute(10, 10)

// sharerOf returns where nodes that share b tell each other of denials; nil if they
// cannot.
func sharerOf(b *backend) store.Sharer {
	sharer, _ := b.Store.(store.Sharer)
	return sharer
}

// noteAnswered counts asks that were answered by a remembered denial, so that an attack
// on one key makes it hot though the layers beneath see next to nothing of it.
func (k *stack) noteAnswered(t *store.Take, asks int64) {
	if t.Mode == nil || t.Mode.SubBuckets > 1 {
		return
	}
	if leases := k.backends[k.placeOf(t)].leases; leases != nil {
		leases.Note(t, asks)
	}
}

// hotReporter tells logs and metrics which keys are hot, and has them raised.
type hotReporter struct {
	metrics *telemetry.Metrics
	logger  *slog.Logger
	lines   linelimit.Limiter
	raiser  *hotraise.Raiser // nil: no key is raised
}

// report notes that the exact bucket of a take is hot now; where its rule allows it
// the bucket is leased. The key is a hash: who holds the key can compute it,
// nobody can go back.
func (r *hotReporter) report(t *store.Take, key hotkey.Key, rate float64) {
	rule := t.Mode.Rule
	r.metrics.HotKey(rule)
	if t.Mode.Main {
		r.raiser.Hot(rule, t.Key)
	}
	untold, ok := r.lines.MayTell(hotLines, time.Now())
	if !ok {
		return
	}
	r.logger.Info("a key is hot", "rule", rule, "key_hash", hex.EncodeToString(key[:]), "per_second", int64(rate), "others_since", untold)
}
