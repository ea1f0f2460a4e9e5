package tenantsource

import (
	"cmp"
	"context"
	"fmt"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/tierfile"
	"github.com/headgate/headgate/tenant"
)

// tierSources are where tiers come from. Those of the database win.
type tierSources struct {
	fileText []byte
	file     *tenant.Tiers // nil: none
	fileErr  error
	// storedText is what the database has, which stored is unless storedErr.
	storedText string
	stored     *tenant.Tiers // nil: none
	storedErr  error
}

// noTiers are in force without a file and without tiers in the database.
var noTiers = new(tenant.Tiers)

func (s *tierSources) inForce() *tenant.Tiers { return cmp.Or(s.stored, s.file, noTiers) }

// loadTiers reads the file of tiers, if there is one and it has changed. A file that
// is refused changes nothing.
func (t *Source) loadTiers() error {
	if t.Tiers == "" {
		return nil
	}
	t.reading.Lock()
	defer t.reading.Unlock()
	tiers, text, err := tierfile.LoadChanged(t.Tiers, t.tiersText())
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && tiers != nil {
		if err = t.checkFit(tiers); err != nil {
			err = fmt.Errorf("%s: %w", t.Tiers, err)
		}
	}
	if t.mu.tiers.fileErr = err; err != nil || tiers == nil {
		return err
	}
	t.mu.tiers.fileText, t.mu.tiers.file = text, tiers
	t.tiersChangedLocked()
	return nil
}

// tiersText returns what the file of tiers had when it was read last.
func (t *Source) tiersText() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.tiers.fileText
}

// storedTiers puts the tiers of the database in force, "" for none. Those that are
// refused change nothing.
func (t *Source) storedTiers(text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.mu.tiers
	if text == s.storedText {
		return s.storedErr
	}
	var tiers *tenant.Tiers
	s.storedText, s.storedErr = text, nil
	if text != "" {
		if tiers, s.storedErr = tierfile.Parse([]byte(text)); s.storedErr == nil {
			s.storedErr = t.checkFit(tiers)
		}
		if s.storedErr != nil {
			return s.storedErr
		}
	}
	s.stored = tiers
	t.tiersChangedLocked()
	return nil
}

func (t *Source) tiersChangedLocked() {
	tiers, from := t.mu.tiers.inForce(), "file"
	if tiers == t.mu.tiers.stored {
		from = "database"
	}
	t.Logger.Info("tiers in force", "tiers", tiers.Names(), "fallback", tiers.Fallback(), "from", from)
	t.applyLocked()
}

// watchTiers compares the file of tiers with those in force until ctx ends.
func (t *Source) watchTiers(ctx context.Context) {
	for range sleep.Every(ctx, t.Poll) {
		t.Reload()
	}
}

// Reload reads the file of tiers, and says once what is wrong with it.
func (t *Source) Reload() {
	if t == nil || t.Tiers == "" {
		return
	}
	err := t.loadTiers()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if before := t.told.Swap(&text); err != nil && (before == nil || *before != text) {
		t.Logger.Error("the file of tiers is refused; the tiers in force stay", "error", err)
	}
}

// checkFit refuses tiers with a limit that the stores cannot decide, or a store that is not there: its requests would
// be left to the failure modes of their rules for good.
func (t *Source) checkFit(tiers *tenant.Tiers) error {
	for where, err := range tiers.Unfit(t.Unfit) {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}
