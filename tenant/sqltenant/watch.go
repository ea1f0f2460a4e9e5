package sqltenant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/tenant"
)

// The times of a Watcher.
const (
	// pollEvery is how late a change is seen whose notice was lost. Nobody tells of
	// what another process writes into a file of SQLite, and asking that costs little.
	pollEvery, pollFileEvery = 5 * time.Second, time.Second
	// repairEvery is how often what is held is compared with the database.
	repairEvery = 30 * time.Second
	// maxRepair bounds the accounts that are all read again for that. With more of
	// them the number and the version are compared.
	maxRepair = 10_000
	// maxChanged bounds the changes that are followed; past them all accounts are read
	// again.
	maxChanged = 100_000
	// retryMin and retryMax bound the pause after a failure, which doubles.
	retryMin, retryMax = 250 * time.Millisecond, 5 * time.Second
	// stepTimeout bounds one question to the database, so that one which does not
	// answer, and does not break the connection either, is as good as away.
	stepTimeout = 10 * time.Second
)

// Watcher keeps a snapshot of a database at hand. Make one with NewWatcher and run
// it.
type Watcher struct {
	db      *DB
	tiers   *tenant.Tiers
	options WatcherOptions
	current atomic.Pointer[view]
	skipped atomic.Int64
	readAt  atomic.Int64 // Unix time in microseconds; 0: never

	// settings are those that were told last, nil before that; notices is how many of
	// rows had come when they were read.
	settings *Settings
	notices  int64
	// repairEvery is the constant of that name but in tests.
	repairEvery time.Duration
	// shared lets what has not changed stay what it was when it is read again.
	shared tenant.Sharer
}

// view is what was read last.
type view struct {
	snapshot *tenant.Snapshot
	version  int64
}

// WatcherOptions configures a Watcher.
type WatcherOptions struct {
	// OnChange, when not nil, is told of every new snapshot and its version. It is
	// called by one goroutine at a time.
	OnChange func(*tenant.Snapshot, int64)
	// OnSettings, when not nil, is told of the documents and the rows of rules when
	// one of them has changed, also by other means than Headgate, and first with what
	// there is.
	OnSettings func(Settings)
	// OnError, when not nil, is told of every failed read, and with nil when it
	// works again, and of accounts and documents that cannot be used (ErrInvalid).
	OnError func(error)
}

// NewWatcher returns a Watcher of db whose snapshots have tiers.
func NewWatcher(db *DB, tiers *tenant.Tiers, o WatcherOptions) *Watcher {
	return &Watcher{db: db, tiers: tiers, options: o, repairEvery: repairEvery}
}

// Snapshot returns the last snapshot and its version; nil before the first read.
func (w *Watcher) Snapshot() (*tenant.Snapshot, int64) {
	v := w.current.Load()
	if v == nil {
		return nil, 0
	}
	return v.snapshot, v.version
}

// Skipped returns how many accounts could not be used when they were last read:
// somebody else than Headgate has written them.
func (w *Watcher) Skipped() int64 { return w.skipped.Load() }

// ReadAt returns when the database last told what the snapshot should be, the zero
// time before that.
func (w *Watcher) ReadAt() time.Time { return instant(w.readAt.Load()) }

// Load reads the settings and all accounts now. Run does so too; calling it first
// lets a node serve with what counts from the first request on. No two calls of Load,
// Follow and Run may overlap.
func (w *Watcher) Load(ctx context.Context) error {
	version, err := w.version(ctx)
	if err != nil {
		return err
	}
	// Read after the version: what changes meanwhile is read again later.
	if err := w.readSettings(ctx); err != nil {
		return err
	}
	var all []tenant.Account
	var skipped int64
	after := tenant.Subject{}
	for {
		page, err := step(ctx, func(ctx context.Context) ([]Record, error) { return w.db.List(ctx, after, MaxPage) })
		if err != nil {
			return err
		}
		for i := range page {
			if a, ok := w.usable(&page[i]); ok {
				all = append(all, a)
			} else {
				skipped++
			}
		}
		if len(page) < MaxPage {
			break
		}
		after = page[len(page)-1].Subject
	}
	w.skipped.Store(skipped)
	w.publish(tenant.NewSnapshot(w.tiers, slices.Values(all)), version)
	return nil
}

// readSettings reads the settings, and tells of them if they are not those that were
// told last.
func (w *Watcher) readSettings(ctx context.Context) error {
	if w.options.OnSettings == nil {
		return nil
	}
	// Before the read: a notice that comes after it asks for another one.
	notices := w.db.rowNotices.Load()
	var bad []error
	s, err := step(ctx, func(ctx context.Context) (s Settings, err error) {
		s, bad, err = w.db.settings(ctx)
		return s, err
	})
	if err != nil {
		return err
	}
	for _, err := range bad {
		w.tell(err)
	}
	w.notices = notices
	if w.settings == nil || !w.settings.Equal(&s) {
		w.settings = &s
		w.options.OnSettings(s)
	}
	return nil
}

// step asks the database one thing, within stepTimeout.
func step[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return ask(ctx)
}

func (w *Watcher) version(ctx context.Context) (int64, error) { return step(ctx, w.db.Version) }

// usable returns the account of a record. One that cannot be is left out, so that
// the others count.
func (w *Watcher) usable(r *Record) (tenant.Account, bool) {
	err := r.Validate()
	if err != nil {
		w.tell(fmt.Errorf("%w: account %s:%s is left out: %w", ErrInvalid, r.Subject.Key, r.Subject.Value, err))
		return tenant.Account{}, false
	}
	a, _ := r.Account() // was validated
	w.shared.Share(&a)
	return a, true
}

func (w *Watcher) tell(err error) {
	if w.options.OnError != nil {
		w.options.OnError(err)
	}
}

func (w *Watcher) publish(s *tenant.Snapshot, version int64) {
	w.current.Store(&view{s, version})
	w.readAt.Store(time.Now().UnixMicro())
	if w.options.OnChange != nil {
		w.options.OnChange(s, version)
	}
}

// Follow reads what has changed since the last snapshot.
func (w *Watcher) Follow(ctx context.Context) error {
	v := w.current.Load()
	if v == nil {
		return w.Load(ctx)
	}
	version, err := w.version(ctx)
	if err != nil {
		return err
	}
	if version < v.version || version > v.version+maxChanged {
		return w.Load(ctx) // another database, or too much of this one
	}
	changed := changes{version: v.version}
	if version != v.version {
		if changed, err = w.changedSince(ctx, v.version); err != nil {
			return err
		}
	}
	if changed.settings || w.db.rowNotices.Load() != w.notices {
		if err := w.readSettings(ctx); err != nil {
			return err
		}
	}
	if changed.version == v.version {
		w.readAt.Store(time.Now().UnixMicro())
		return nil
	}
	accounts, err := w.accounts(ctx, changed.subjects)
	if err != nil {
		return err
	}
	w.publish(v.snapshot.With(accounts...), changed.version)
	return nil
}

// accounts reads the accounts of subjects; those that are not there, or cannot be
// used, have nothing but their subject.
func (w *Watcher) accounts(ctx context.Context, subjects []tenant.Subject) ([]tenant.Account, error) {
	accounts := make([]tenant.Account, 0, len(subjects))
	for some := range slices.Chunk(subjects, MaxPage) {
		records, err := step(ctx, func(ctx context.Context) ([]Record, error) {
			return w.db.records(ctx, selectionOf(some, w.db.postgres()))
		})
		if err != nil {
			return nil, w.db.failed("read", err)
		}
		usable := make(map[tenant.Subject]tenant.Account, len(records))
		for i := range records {
			if a, ok := w.usable(&records[i]); ok {
				usable[a.Subject] = a
			}
		}
		for _, subject := range some {
			a := usable[subject]
			a.Subject = subject
			accounts = append(accounts, a)
		}
	}
	return accounts, nil
}

// changes is what has changed up to a version: accounts of subjects, and whether
// settings have.
type changes struct {
	subjects []tenant.Subject
	settings bool
	version  int64
}

// changedSince returns what has changed after a version.
func (w *Watcher) changedSince(ctx context.Context, version int64) (changes, error) {
	all := changes{version: version}
	seen := map[tenant.Subject]bool{}
	for {
		page, err := step(ctx, func(ctx context.Context) ([]Entry, error) { return w.db.headings(ctx, all.version) })
		if err != nil {
			return changes{}, err
		}
		for i := range page {
			e := &page[i]
			all.version = e.Version
			switch {
			case e.Kind == ActionEntry: // it has changed nothing here
			case e.Kind != AccountEntry:
				all.settings = true
			case !seen[e.Subject]:
				seen[e.Subject] = true
				all.subjects = append(all.subjects, e.Subject)
			}
		}
		if len(page) < MaxPage {
			return all, nil
		}
	}
}

// repair makes sure that the settings and the snapshot are those of the database,
// whatever was missed.
func (w *Watcher) repair(ctx context.Context) error {
	v := w.current.Load()
	if v == nil || v.snapshot.Len() <= maxRepair {
		return w.Load(ctx)
	}
	if err := w.readSettings(ctx); err != nil {
		return err
	}
	accounts, err := step(ctx, w.db.count)
	if err != nil {
		return err
	}
	if err := w.Follow(ctx); err != nil {
		return err
	}
	if v := w.current.Load(); int64(v.snapshot.Len())+w.skipped.Load() != accounts {
		return w.Load(ctx)
	}
	return nil
}

// Run keeps the snapshot fresh until ctx ends. While the database is away the last
// snapshot counts.
func (w *Watcher) Run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.db.hear(ctx)
	}()
	defer func() { <-done }()
	failing, pause := false, retryMin
	poll := pollFileEvery
	if w.db.postgres() {
		poll = pollEvery
	}
	refresh := w.repair
	nextRepair := time.Now().Add(w.repairEvery)
	for {
		// Before the read: a change that comes after it rings.
		rung := w.db.local.next()
		wait := poll
		if err := refresh(ctx); ctx.Err() != nil {
			return
		} else if err != nil {
			w.tell(err)
			failing, wait = true, pause
			pause = min(2*pause, retryMax)
			refresh = w.repair
		} else {
			if failing {
				w.tell(nil)
			}
			failing, pause = false, retryMin
			refresh = w.Follow
		}
		if time.Now().After(nextRepair) {
			refresh, nextRepair = w.repair, time.Now().Add(w.repairEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-rung:
		case <-time.After(wait):
		}
	}
}

// hear rings the bell for each notice of PostgreSQL, and after each reconnect, when
// some may have been missed. It does nothing with SQLite, whose one process rings
// by itself.
func (d *DB) hear(ctx context.Context) {
	if !d.postgres() {
		return
	}
	for pause := retryMin; ctx.Err() == nil; pause = min(2*pause, retryMax) {
		if heard := d.hearOnce(ctx); heard {
			pause = retryMin
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// hearOnce listens on a connection of its own until that breaks, and reports
// whether it ever worked.
func (d *DB) hearOnce(ctx context.Context) (worked bool) {
	connection, err := pgx.ConnectConfig(ctx, d.listen)
	if err != nil {
		return false
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		_ = connection.Close(closing)
	}()
	if _, err := connection.Exec(ctx, "LISTEN "+channel); err != nil {
		return false
	}
	d.rowNotices.Add(1) // one may have been missed
	for {
		d.local.ring()
		// A notice within the poll, or a sign that the connection is alive.
		waiting, cancel := context.WithTimeout(ctx, pollEvery)
		notice, err := connection.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil && notice.Payload == ruleRowsNotice:
			d.rowNotices.Add(1)
		case ctx.Err() != nil:
			return true
		case errors.Is(err, context.DeadlineExceeded):
			ping, cancel := context.WithTimeout(ctx, connectTimeout)
			err = connection.Ping(ping)
			cancel()
		}
		if err != nil {
			return true
		}
	}
}
