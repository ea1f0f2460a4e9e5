package sqltenant

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
)

// ErrBehind is wrapped by the error of a read of a replica that has not replayed yet what
// was read before, of it or of another server. What was read stays, and is read on once
// the replica has come so far.
var ErrBehind = errors.New("the replica is behind what was read before")

// ReplicaOptions configures OpenReplica. The zero value is good.
type ReplicaOptions struct {
	// Via is as OpenVia takes it.
	Via func(dial Dialer) Dialer
	// Seen is a version that was read before, of whatever server: what is older is not
	// read. 0 is none.
	Seen int64
}

// replica is what a DB has that is only read, and may be behind. Behind one address there
// may be several servers, each as far as it is.
type replica struct {
	seen atomic.Int64 // the version that was read so far
}

// OpenReplica opens a PostgreSQL that replays what another one writes (a hot standby), to
// be read alone: nothing is written there, so the tables must have come already. Where it is
// no standby it is used all the same, and not written to either. A Watcher of it asks every
// second for the version, because a standby cannot tell of changes.
//
// An address may name several servers, of which the first that is there is used; see
// libpq's multiple hosts and target_session_attrs. Errors hold no credentials.
func OpenReplica(ctx context.Context, dsn string, o ReplicaOptions) (*DB, error) {
	d, err := openPostgres(ctx, dsn, o.Via)
	if err != nil {
		return nil, err
	}
	d.replica = new(replica)
	d.replica.seen.Store(o.Seen)
	if err := d.hasTables(ctx); err != nil {
		return nil, errors.Join(d.failed("open the replica of", err), d.Close())
	}
	return d, nil
}

// errTables says that a replica cannot be read yet.
var errTables = errors.New("not all tables are there yet")

// noTable is the code of an error of PostgreSQL for a table that is not there.
const noTable = "42P01"

// hasTables returns why the tables cannot be read by this version of Headgate.
func (d *DB) hasTables(ctx context.Context) error {
	needed, err := newestMigration()
	if err != nil {
		return err
	}
	var there int64
	err = d.read.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version`).Scan(&there)
	var refusal *pgconn.PgError
	switch {
	case errors.As(err, &refusal) && refusal.Code == noTable:
		there = 0
	case err != nil:
		return err
	}
	if there < needed {
		return fmt.Errorf("%w: they are of version %d, and %d is needed; hint: they come from the primary: does it have them (a process with --tenants makes them), and does this server replay it?", errTables, there, needed)
	}
	return nil
}

// newestMigration returns the number of the last change of the tables.
func newestMigration() (newest int64, err error) {
	for _, of := range []struct {
		files fs.FS
		glob  string
	}{{migrations, "migrations/*.sql"}, {postgresMigrations, "migrations/postgres/*.sql"}} {
		names, err := fs.Glob(of.files, of.glob)
		if err != nil {
			return 0, err
		}
		for _, name := range names {
			number, err := goose.NumericComponent(name)
			if err != nil {
				return 0, err
			}
			newest = max(newest, number)
		}
	}
	return newest, nil
}

// saw notes a version that was read of a replica.
func (d *DB) saw(version int64) {
	if d.replica == nil {
		return
	}
	for {
		seen := d.replica.seen.Load()
		if version <= seen || d.replica.seen.CompareAndSwap(seen, version) {
			return
		}
	}
}

// unsaw lets a replica be read from a version on, because what was read is no part of the
// history any more.
func (d *DB) unsaw(version int64) {
	if d.replica != nil {
		d.replica.seen.Store(version)
	}
}

// seen returns the version that was read of a replica so far; 0 of what is none.
func (d *DB) seen() int64 {
	if d.replica == nil {
		return 0
	}
	return d.replica.seen.Load()
}

// reached returns ErrBehind where a replica, as q sees it, is older than what was read
// before.
func (d *DB) reached(ctx context.Context, q querier) error {
	seen := d.seen()
	if seen == 0 {
		return nil
	}
	version, err := lastVersion(ctx, q)
	if err != nil {
		return err
	}
	if version < seen {
		return fmt.Errorf("%w (version %d was read, it has %d)", ErrBehind, seen, version)
	}
	return nil
}

// Standby is what a server says of how far it has replayed another one.
type Standby struct {
	// Replays is false where the server is no standby: what it has is what there is.
	Replays bool
	// Receiving says that it is connected to the server that it replays. Paused says that
	// somebody has paused the replay.
	Receiving, Paused bool
	// Unreplayed is how many bytes of the log it has received and not replayed yet.
	Unreplayed int64
	// Last is when the last transaction that it has replayed was committed, by the clock of
	// the primary; the zero time where it has replayed none since its start.
	Last time.Time
	// Now is its own clock.
	Now time.Time
}

// Standby asks how far the server has replayed another one. Rights beyond those of any user
// are not needed.
func (d *DB) Standby(ctx context.Context) (s Standby, err error) {
	if !d.postgres() {
		return s, d.failed("ask for the standby of", errors.New("no PostgreSQL"))
	}
	var last sql.NullTime
	// Who may not see the details sees the row of a connected receiver all the same.
	err = d.read.QueryRowContext(ctx, `SELECT pg_is_in_recovery(),
		EXISTS (SELECT 1 FROM pg_stat_wal_receiver WHERE status IS NULL OR status = 'streaming'),
		CASE WHEN pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE false END,
		greatest(coalesce(pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), 0), 0)::BIGINT,
		pg_last_xact_replay_timestamp(), clock_timestamp()`).
		Scan(&s.Replays, &s.Receiving, &s.Paused, &s.Unreplayed, &last, &s.Now)
	if err != nil {
		return Standby{}, d.failed("ask for the standby of", err)
	}
	s.Last = last.Time
	return s, nil
}

// Lag tells how old at most what a standby has is, from what it says of itself now and
// then. The zero value knows nothing yet. It is not safe for concurrent use.
type Lag struct {
	// whole is when the standby last had all that there was, by its own clock.
	whole time.Time
}

// Note takes what a standby says, and returns how old at most its state is; false where
// that is not known.
//
// A standby that is connected and has replayed all that it received has all that there is,
// however long ago the last transaction was: an idle primary makes no lag. Else its state
// is as old as the last transaction in it, or as the last moment at which it had all. What
// the primary has not sent yet it cannot know of. A clock of the primary that is ahead
// makes no lag below 0.
func (l *Lag) Note(s *Standby) (lag time.Duration, known bool) {
	if !s.Replays || s.Receiving && s.Unreplayed == 0 {
		l.whole = s.Now
		return 0, true
	}
	as := s.Last
	if l.whole.After(as) {
		as = l.whole
	}
	if as.IsZero() {
		return 0, false
	}
	return max(s.Now.Sub(as), 0), true
}
