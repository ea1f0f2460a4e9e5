package app

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/tenant"
)

// loadFile puts the accounts in force that were kept, if there are any and the
// database has not answered meanwhile.
func (t *tenants) loadFile(context.Context) {
	accounts, head, err := quotas.ReadFile(t.settings.TenantsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		t.logger.Error("the kept accounts cannot be used", "error", err)
		return
	}
	kept := tenant.NewSnapshot(new(tenant.Tiers), slices.Values(accounts))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.accounts != nil {
		return
	}
	t.mu.accounts, t.mu.version, t.mu.fromFile, t.mu.savedAt = kept, head.Version, true, head.SavedAt
	t.applyLocked()
	t.logger.Info("the kept accounts are in force until the database answers", "accounts", head.Accounts, "version", head.Version, "saved_at", head.SavedAt)
}

// keep writes the accounts in force to the file until ctx ends.
func (t *tenants) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.changed:
		}
		t.keepNow()
		select {
		case <-ctx.Done():
			return
		case <-time.After(keepEvery):
		}
	}
}

// keepNow writes the accounts of the database that are in force, unless the file has
// them.
func (t *tenants) keepNow() {
	t.mu.Lock()
	accounts, version, fromFile := t.mu.accounts, t.mu.version, t.mu.fromFile
	t.mu.Unlock()
	if accounts == nil || fromFile || version == t.kept {
		return
	}
	err := quotas.WriteFile(t.settings.TenantsFile, accounts, quotas.Head{Version: version, SavedAt: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		t.logger.Error("the accounts of tenants were not kept; without them a start needs the database", "error", err)
		return
	}
	t.kept = version
}
