package tenantsource

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/memstore"
)

// Tiers with a limit that the stores cannot decide are refused at start and at a reload,
// from the file and from the database; those in force stay.
func TestUnfitTiersAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiers.yaml")
	write := func(algorithm string) {
		text := "fallback: pro\ntiers: {pro: {default: {requests_per_unit: 9, unit: minute, algorithm: " + algorithm + "}}}"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	o := Options{Tiers: path, Limiter: limiter, Logger: slog.New(slog.NewTextHandler(&log, nil)), Unfit: func(_ string, l *limit.Limit) error {
		if l != nil && l.Algorithm != limit.FixedWindow {
			return errors.New("this store cannot")
		}
		return nil
	}}
	const why = "tier pro, default: this store cannot"
	write("token_bucket")
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), path) {
		t.Errorf("at start: %v", err)
	}
	write("fixed_window")
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	inForce := s.TiersInForce()
	write("gcra")
	s.Reload()
	if !strings.Contains(log.String(), why) || s.TiersInForce() != inForce || !s.State().TiersStale {
		t.Errorf("after a reload: %s", log.String())
	}
	if err := s.storedTiers("fallback: pro\ntiers: {pro: {default: {requests_per_unit: 9, unit: minute, algorithm: gcra}}}"); err == nil || !strings.Contains(err.Error(), why) || s.TiersInForce() != inForce {
		t.Errorf("of the database: %v", err)
	}
}
