package tenantsource

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate/internal/accountfile"
	"github.com/headgate/headgate/internal/snapfeed"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// watching returns how the database is followed.
func (t *Source) watching() sqltenant.WatcherOptions {
	o := sqltenant.WatcherOptions{OnChange: t.changedTo, OnSettings: t.documentsChangedTo, OnError: t.tell}
	if t.replica != nil {
		o.Gone = t.gone
	}
	if t.disk == nil {
		return o
	}
	o.Build, o.Compact = t.disk.build, t.disk.compact
	if t.Publish != nil {
		o.OnPage = t.Publish.Page
	}
	return o
}

// beginFromDisk puts in force what was kept in the directory, if there is anything.
func (t *Source) beginFromDisk() {
	made := t.disk.open()
	if t.disk.begin == nil {
		return
	}
	settings, err := t.disk.settings()
	if err != nil {
		t.Logger.Error("what was kept of the database beside accounts cannot be used", "error", err)
	}
	if settings != nil {
		t.documents.unlessKnown(*settings)
	}
	t.keptInForce(t.disk.begin, t.disk.at, made)
	t.publishBase(t.disk.begin)
}

// endDisk keeps what the directory does not have yet of the database.
func (t *Source) endDisk() {
	w := t.watcher.Load()
	if t.disk == nil || w == nil {
		return
	}
	if s, at := w.Held(); s != nil && s.Base() != nil {
		t.disk.end(s, at)
	}
}

// keptInForce puts a snapshot in force that was kept.
func (t *Source) keptInForce(s *tenant.Snapshot, at sqltenant.Point, made time.Time) {
	t.mu.Lock()
	t.mu.accounts, t.mu.version, t.mu.digest, t.mu.fromFile, t.mu.savedAt = s, at.Version, at.Digest, true, made
	t.applyLocked()
	t.mu.Unlock()
	about := []any{"accounts", s.Len(), "version", at.Version}
	if !made.IsZero() {
		about = append(about, "saved_at", made)
	}
	t.Logger.Info("what was kept is in force until "+t.where()+" answers", about...)
}

// publishBase gives the file of a snapshot to others, if that is a new one.
func (t *Source) publishBase(s *tenant.Snapshot) {
	f, ok := s.Base().(*accountfile.File)
	if t.Publish == nil || !ok || f == t.published {
		return
	}
	t.published = f
	// Beside all else: of ten million accounts the file is read for a second.
	t.publishing.Go(func() {
		if err := t.Publish.SetBase(f); err != nil {
			t.Logger.Error("accounts are not published", "error", err)
		}
	})
}

// keepSettings keeps what the database says beside accounts, and gives it to others.
func (t *Source) keepSettings(s sqltenant.Settings) {
	if t.disk != nil && t.follower == nil {
		if err := t.disk.keepSettings(&s); err != nil {
			t.Logger.Error("what the database says beside accounts was not kept; without it a start needs the database", "error", err)
		}
	}
	if t.Publish != nil {
		if err := t.Publish.SetSettings(s); err != nil {
			t.Logger.Error("what the database says is not published", "error", err)
		}
	}
}

// follow returns what follows admin processes.
func (t *Source) follow() *snapfeed.Follower {
	return t.Follow(snapfeed.FollowerOptions{
		Dir: t.Dir,
		OnChange: func(s *tenant.Snapshot, at sqltenant.Point, kept bool) {
			if kept {
				t.keptInForce(s, at, t.follower.ReadAt())
				return
			}
			t.changedTo(s, at)
		},
		OnSettings: func(s sqltenant.Settings, kept bool) {
			if kept {
				t.documents.unlessKnown(s)
			} else {
				t.documents.inForce(s)
			}
		},
		OnError: func(err error) {
			if errors.Is(err, snapfeed.ErrRestored) {
				err = errors.Join(sqltenant.ErrHistory, err)
			}
			t.tell(err)
		},
	})
}

// runFollower follows until ctx ends.
func (t *Source) runFollower(ctx context.Context) {
	compiled := make(chan struct{})
	go func() { defer close(compiled); t.documents.compile(ctx) }()
	t.follower.Run(ctx)
	<-compiled
}
