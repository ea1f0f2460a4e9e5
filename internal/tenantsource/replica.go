package tenantsource

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/tenant/sqltenant"
)

const (
	// askReplicaEvery is how often a replica is asked how far it is, askReplicaTimeout
	// bounds one question.
	askReplicaEvery, askReplicaTimeout = time.Second, 5 * time.Second
)

// errNoPrimary says that nobody can be asked whether a replica is behind.
var errNoPrimary = errors.New("the primary has not been opened yet")

// replica is what is known of the replica that is read in the place of the database that
// is written to.
type replica struct {
	dsn string

	mu struct {
		sync.Mutex
		lag  sqltenant.Lag // of one server
		last Replica
		// at is when the replica answered last, by this process; the zero time: never.
		at time.Time
	}
	// primary says why the primary could not be opened; nil when it was.
	primary struct {
		sync.Mutex
		err error
	}
}

// Replica is how far the replica of the database is.
type Replica struct {
	// OK says that it answers. Primary says that it replays nobody: it is a primary itself.
	OK, Primary bool
	// Receiving says that it is connected to its primary, Paused that somebody has paused
	// its replay.
	Receiving, Paused bool
	// Unreplayed is how many bytes it has received and not replayed yet.
	Unreplayed int64
	// Lag is how old at most its state is, or what was read of it while it does not answer;
	// negative where that is not known.
	Lag time.Duration
	// PrimaryOpened says whether the primary could be opened, so that changes can be made.
	PrimaryOpened bool
}

// newReplica returns what is known at first of the replica at dsn, nil without one.
func newReplica(dsn string) *replica {
	if dsn == "" {
		return nil
	}
	r := &replica{dsn: dsn}
	r.mu.last.Lag, r.primary.err = -1, errNoPrimary
	return r
}

// note takes an answer of the replica, or that there was none.
func (r *replica) note(s *sqltenant.Standby, err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.mu.last.OK = false
		return
	}
	lag, known := r.mu.lag.Note(s)
	if !known {
		lag = -1
	}
	r.mu.last = Replica{OK: true, Primary: !s.Replays, Receiving: s.Receiving, Paused: s.Paused, Unreplayed: s.Unreplayed, Lag: lag}
	r.mu.at = now
}

// state returns what is known of the replica; nil of none.
func (r *replica) state(now time.Time) *Replica {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	s, at := r.mu.last, r.mu.at
	r.mu.Unlock()
	if !s.OK {
		s.Receiving, s.Paused = false, false
		if s.Lag >= 0 {
			s.Lag += now.Sub(at) // what was read of it grows older
		}
	}
	r.primary.Lock()
	defer r.primary.Unlock()
	s.PrimaryOpened = r.primary.err == nil
	return &s
}

// wrote notes whether the primary could be opened, and reports whether that is news.
func (r *replica) wrote(err error) bool {
	r.primary.Lock()
	defer r.primary.Unlock()
	before := r.primary.err
	r.primary.err = err
	return (err == nil) != (before == nil) || errors.Is(before, errNoPrimary) ||
		err != nil && sqltenant.Trouble(err) != sqltenant.Trouble(before)
}

// Replica returns how far the replica of the database is, nil where there is none.
func (t *Source) Replica() *Replica {
	if t == nil {
		return nil
	}
	return t.replica.state(time.Now())
}

// view is r as operators see it.
func (r *Replica) view() *view.Replica {
	if r == nil {
		return nil
	}
	v := &view.Replica{
		OK: r.OK, Primary: r.Primary, Receiving: r.Receiving, Paused: r.Paused, UnreplayedBytes: r.Unreplayed, PrimaryOpened: r.PrimaryOpened,
	}
	if r.Lag >= 0 {
		lag := r.Lag.Seconds()
		v.LagS = &lag
	}
	return v
}

// ReplicaState is Replica as metrics show it; it is for a Source that has one.
func (t *Source) ReplicaState() telemetry.Replica {
	s := t.Replica()
	return telemetry.Replica{
		OK: s.OK, Receiving: s.Receiving, Paused: s.Paused, Primary: s.Primary, Unreplayed: s.Unreplayed,
		Lag: max(s.Lag.Seconds(), -1), PrimaryOpened: s.PrimaryOpened,
	}
}

// openRead opens what is read of the database.
func (t *Source) openRead(ctx context.Context) (*sqltenant.DB, error) {
	if t.replica == nil {
		return sqltenant.OpenVia(ctx, t.Options.Database, t.Options.Via)
	}
	t.mu.Lock()
	seen := t.mu.version
	t.mu.Unlock()
	db, err := sqltenant.OpenReplica(ctx, t.replica.dsn, sqltenant.ReplicaOptions{Via: t.Options.Via, Seen: seen})
	if err != nil {
		t.replica.note(nil, err, time.Now())
	}
	return db, err
}

// followReplica asks db how far it is until ctx ends; it does nothing without a replica.
func (t *Source) followReplica(ctx context.Context, db *sqltenant.DB) {
	for t.replica != nil && ctx.Err() == nil {
		asking, cancel := context.WithTimeout(ctx, askReplicaTimeout)
		s, err := db.Standby(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		t.replica.note(&s, err, time.Now())
		_ = sleep.For(ctx, askReplicaEvery)
	}
}

// keepPrimary opens the database that is written to, and keeps it open until ctx ends. What
// is read does not wait for it.
func (t *Source) keepPrimary(ctx context.Context) {
	for pause := reopenMin; ; pause = min(2*pause, reopenMax) {
		opening, cancel := context.WithTimeout(ctx, openTimeout)
		db, err := sqltenant.OpenVia(opening, t.Options.Database, t.Options.Via)
		cancel()
		if ctx.Err() != nil {
			if err == nil {
				_ = db.Close()
			}
			return
		}
		news := t.replica.wrote(err)
		if err == nil {
			t.db.Store(db)
			<-ctx.Done()
			_ = db.Close()
			return
		}
		if news {
			t.Logger.Warn("the primary of the database of tenants "+sqltenant.Trouble(err)+"; what is read of its replica counts on, and nothing can be changed through this process", "error", err)
		}
		if sleep.For(ctx, pause) != nil {
			return
		}
	}
}

// gone asks the primary whether a point that was read is no part of the history any more.
func (t *Source) gone(ctx context.Context, at sqltenant.Point) (bool, error) {
	db := t.db.Load()
	if db == nil {
		return false, errNoPrimary
	}
	if at.Digest == "" {
		version, err := db.Version(ctx)
		return version < at.Version, err
	}
	holds, err := db.Holds(ctx, at)
	return !holds, err
}
