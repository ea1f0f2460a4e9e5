package tenantsource

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// abandoned is how old an unfinished file is that nobody writes any more: no file takes as
// long, and several processes may keep the same one.
const abandoned = time.Hour

// keptVersions are the versions of the database that a file has, and the digest of the
// history: another one may have the same versions.
type keptVersions struct {
	accounts, documents int64
	digest              string
}

// loadFile puts in force what was kept, if there is anything and the database has not
// answered meanwhile.
func (t *Source) loadFile(context.Context) {
	_, _ = rulesource.SweepFile(t.Kept, time.Now().Add(-abandoned)) // else at the next start
	accounts, head, err := quotas.ReadFile(t.Kept)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		t.Logger.Error("what was kept of the database cannot be used", "error", err)
		return
	}
	// A file of an earlier version has no settings: there were none.
	t.documents.unlessKnown(*cmp.Or(head.Settings, new(sqltenant.Settings)))
	kept := tenant.NewSnapshot(new(tenant.Tiers), slices.Values(accounts))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.accounts != nil {
		return
	}
	t.mu.accounts, t.mu.version, t.mu.fromFile, t.mu.savedAt = kept, head.Version, true, head.SavedAt
	t.applyLocked()
	t.Logger.Info("what was kept of the database is in force until it answers", "accounts", head.Accounts, "version", head.Version, "saved_at", head.SavedAt)
}

// keep writes what the database says to the file until ctx ends, and then once more.
func (t *Source) keep(ctx context.Context) {
	defer t.keepNow()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.changed:
		}
		t.keepNow()
		if sleep.For(ctx, keepEvery) != nil {
			return
		}
	}
}

// keepNow writes what the database says and is in force, unless the file has it.
func (t *Source) keepNow() {
	t.mu.Lock()
	accounts, version, digest, fromFile := t.mu.accounts, t.mu.version, t.mu.digest, t.mu.fromFile
	t.mu.Unlock()
	settings, known := t.documents.read()
	now := keptVersions{version, settings.Version, digest}
	if accounts == nil || !known || fromFile || now == t.kept {
		return
	}
	head := quotas.Head{Version: version, SavedAt: time.Now().UTC().Truncate(time.Second), Settings: &settings}
	if err := quotas.WriteFile(t.Kept, accounts, head); err != nil {
		t.Logger.Error("what the database says was not kept; without it a start needs the database", "error", err)
		return
	}
	t.kept = now
}
