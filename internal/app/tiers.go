package app

import (
	"cmp"
	"context"
	"time"

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
func (t *tenants) loadTiers() error {
	if t.settings.Tiers == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	tiers, text, err := tierfile.LoadChanged(t.settings.Tiers, t.mu.tiers.fileText)
	if t.mu.tiers.fileErr = err; err != nil || tiers == nil {
		return err
	}
	t.mu.tiers.fileText, t.mu.tiers.file = text, tiers
	t.tiersChangedLocked()
	return nil
}

// storedTiers puts the tiers of the database in force, "" for none. Those that are
// refused change nothing.
func (t *tenants) storedTiers(text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.mu.tiers
	if text == s.storedText {
		return s.storedErr
	}
	var tiers *tenant.Tiers
	s.storedText, s.storedErr = text, nil
	if text != "" {
		if tiers, s.storedErr = tierfile.Parse([]byte(text)); s.storedErr != nil {
			return s.storedErr
		}
	}
	s.stored = tiers
	t.tiersChangedLocked()
	return nil
}

func (t *tenants) tiersChangedLocked() {
	tiers, from := t.mu.tiers.inForce(), "file"
	if tiers == t.mu.tiers.stored {
		from = "database"
	}
	t.logger.Info("tiers in force", "tiers", tiers.Names(), "fallback", tiers.Fallback(), "from", from)
	t.tellUnfit(tiers)
	t.applyLocked()
}

// tellUnfit says which limits of tiers the store cannot decide.
func (t *tenants) tellUnfit(tiers *tenant.Tiers) {
	for _, name := range tiers.Names() {
		for text, q := range tiers.Tier(name).Quotas {
			for _, l := range q.Limits {
				if err := t.unfit(l.Limit); err != nil {
					t.logger.Error("a limit of a tier cannot be decided by the store; the failure mode of its rule decides",
						"tier", name, "descriptor", tenant.DescriptorText(text), "error", err)
				}
			}
		}
	}
}

// watchTiers compares the file of tiers with those in force until ctx ends.
func (t *tenants) watchTiers(ctx context.Context) {
	tick := time.NewTicker(t.settings.RulesPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.reload()
		}
	}
}

// reload reads the file of tiers, and says once what is wrong with it.
func (t *tenants) reload() {
	if t == nil || t.settings.Tiers == "" {
		return
	}
	err := t.loadTiers()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if before := t.told.Swap(&text); err != nil && (before == nil || *before != text) {
		t.logger.Error("the file of tiers is refused; the tiers in force stay", "error", err)
	}
}
