package sqltenant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/tenant"
)

// The times of a Watcher.
const (
	// pollEvery is how late a change is seen whose notice was lost. Nobody tells of
	// what another process writes into a file of SQLite, nor does a standby of what it
	// replays, and asking them costs little.
	pollEvery, pollUntoldEvery = 5 * time.Second, time.Second
	// repairEvery is how often what is held is compared with the database. It is done
	// less often where that takes long: after a count countShare times as long as it
	// took, after a load loadShare times.
	repairEvery           = 30 * time.Second
	countShare, loadShare = 100, 10
	// maxRepair bounds the accounts that are all read again for that. With more of
	// them, how many rows there are is compared.
	maxRepair = 10_000
	// compactEvery is how often it is asked at most whether there are too many changes
	// beside a base.
	compactEvery = 2 * time.Second
	// maxChanged bounds the changes that are followed; past them all accounts are read
	// again.
	maxChanged = 100_000
	// retryMin and retryMax bound the pause after a failure, which doubles.
	retryMin, retryMax = 250 * time.Millisecond, 5 * time.Second
	// stepTimeout bounds one question to the database, so that one which does not
	// answer, and does not break the connection either, is as good as away. loadTimeout
	// is for those that read very much; of rows of rules, which may be 100,000 at once,
	// it bounds the time in which none comes.
	stepTimeout, loadTimeout = 10 * time.Second, time.Minute
)

// Watcher keeps a snapshot of a database at hand. Make one with NewWatcher and run
// it.
type Watcher struct {
	db      *DB
	tiers   *tenant.Tiers
	options WatcherOptions
	current atomic.Pointer[view]
	skipped atomic.Int64 // accounts
	parts   atomic.Int64 // of other accounts
	readAt  atomic.Int64 // Unix time in microseconds; 0: never
	reading atomic.Int64 // accounts read by a load that goes on; -1: none does

	// left is what snapshots do not have, urgent what head said of the documents that
	// were read. They are of who looks for changes.
	left   leftovers
	urgent *[2]int64
	// unconfirmed says that the snapshot is the one of Begin, of which the database has not
	// said yet that it is as it is.
	unconfirmed bool
	// sums are those of the snapshots since a count began, by version; nil while none
	// goes on.
	sums map[int64]sums
	// repairEvery is the constant of that name but in tests.
	repairEvery time.Duration

	// telling is held while settings are told. They are those that were told last, nil
	// before that.
	telling  sync.Mutex
	settings *Settings

	// shared lets what has not changed stay what it was when it is read again.
	sharing sync.Mutex
	shared  tenant.Sharer
}

// view is what was read last.
type view struct {
	snapshot *tenant.Snapshot
	at       Point
}

// WatcherOptions configures a Watcher.
type WatcherOptions struct {
	// OnChange, when not nil, is told of every new snapshot and the last change in it.
	// It is called by one goroutine at a time.
	OnChange func(*tenant.Snapshot, Point)
	// OnSettings, when not nil, is told of the documents and the rows of rules when
	// one of them has changed, also by other means than Headgate, and first with what
	// there is. No two calls overlap. It must not take long: switches come this way.
	OnSettings func(Settings)
	// Build, when not nil, makes the snapshot of all accounts, which are as they were at a
	// point or later, such as one over a file; nil: in memory. An error among them says that
	// they could not all be read: it is the last of them, and what came before must not take
	// the place of anything. Build returns it, or its own error, which is one of a read.
	Build func(at Point, accounts iter.Seq2[tenant.Account, error]) (*tenant.Snapshot, error)
	// Compact, when not nil, makes of a snapshot another one of the same accounts that has
	// fewer changes beside its base, or returns nil where that is not worth it yet. It is
	// called beside the look for changes.
	Compact func(at Point, s *tenant.Snapshot) (*tenant.Snapshot, error)
	// OnPage, when not nil, is told of all changes of accounts before they are in a
	// snapshot. It is called by one goroutine at a time.
	OnPage func(Page)
	// Gone is for a replica, and asks its primary whether a point that was read is no part of
	// the history any more. It is asked where the replica does not have that point: as long
	// as it is not true the replica is behind, and what was read stays. Of a point without a
	// digest only the version is known. When nil, what the database says counts.
	Gone func(ctx context.Context, at Point) (bool, error)
	// OnError, when not nil, is told of every failed read, and with nil when it
	// works again, of accounts and documents that cannot be used (ErrInvalid), and of
	// another history (ErrHistory). A replica that is behind is a failed read (ErrBehind).
	// Calls may overlap.
	OnError func(error)
}

// Page is some changes: the accounts that have changed after From, as they are at To. Those
// that are not there any more have nothing but their subject. Where Anew is set the history
// is another one, From is To, and what was told before is void.
type Page struct {
	From, To Point
	Accounts []tenant.Account
	Anew     bool
}

// Begin has w begin with a snapshot that was made at a point, and follow what has changed
// since then, if the database still knows: else all is read. It is called before Run.
func (w *Watcher) Begin(s *tenant.Snapshot, at Point) {
	w.current.Store(&view{s, at})
	w.unconfirmed = true
}

// page tells of changes.
func (w *Watcher) page(p Page) {
	if w.options.OnPage != nil {
		w.options.OnPage(p)
	}
}

// NewWatcher returns a Watcher of db whose snapshots have tiers.
func NewWatcher(db *DB, tiers *tenant.Tiers, o WatcherOptions) *Watcher {
	w := &Watcher{db: db, tiers: tiers, options: o, repairEvery: repairEvery}
	w.reading.Store(-1)
	return w
}

// Snapshot returns the last snapshot and its version; nil before the first read.
func (w *Watcher) Snapshot() (*tenant.Snapshot, int64) {
	s, at := w.Held()
	return s, at.Version
}

// Held is Snapshot with all of the point.
func (w *Watcher) Held() (*tenant.Snapshot, Point) {
	v := w.current.Load()
	if v == nil {
		return nil, Point{}
	}
	return v.snapshot, v.at
}

// Skipped returns how many accounts could not be used when they were last read, and how
// many tiers, overrides and top-ups of others: somebody else than Headgate has written
// them.
func (w *Watcher) Skipped() (accounts, parts int64) { return w.skipped.Load(), w.parts.Load() }

// ReadAt returns when the database last told what the snapshot should be, the zero
// time before that.
func (w *Watcher) ReadAt() time.Time { return instant(w.readAt.Load()) }

// Reading returns how many accounts were read so far while all of them are, and false
// when they are not.
func (w *Watcher) Reading() (accounts int64, ok bool) {
	n := w.reading.Load()
	return max(n, 0), n >= 0
}

// Load reads the settings and all accounts now. Run does so too; calling it first
// lets a node serve with what counts from the first request on. No two calls of Load,
// Follow and Run may overlap.
func (w *Watcher) Load(ctx context.Context) error {
	h, err := step(ctx, w.db.head)
	if err != nil {
		return err
	}
	if err := w.readSettings(ctx, documentKinds, true); err != nil {
		return err
	}
	l := w.load(ctx)
	if l.err != nil {
		return l.err
	}
	w.take(l)
	if l.at != h.Point { // something has changed meanwhile, and no look will come by it
		return w.readSettings(ctx, documentKinds, true)
	}
	return nil
}

// Follow reads what has changed since the last snapshot.
func (w *Watcher) Follow(ctx context.Context) error {
	for {
		seen, err := w.look(ctx)
		if err != nil {
			return err
		}
		if seen.all {
			return w.Load(ctx)
		}
		if seen.rules {
			if err := w.readSettings(ctx, []Kind{RulesDocument}, true); err != nil {
				return err
			}
		}
		if !seen.more {
			return nil
		}
	}
}

// seen is what a look has found that is left to do.
type seen struct {
	// rules are to be read, all accounts are, and more changes are to be followed.
	rules, all, more bool
}

// look puts the next changes in force: switches and tiers before all else, then some of
// the accounts. What takes long it leaves to others.
func (w *Watcher) look(ctx context.Context) (found seen, err error) {
	h, err := step(ctx, w.db.head)
	if err != nil {
		return found, err
	}
	v := w.current.Load()
	anew, err := w.isAnew(ctx, v, &h)
	if err != nil {
		return found, err
	}
	w.db.saw(h.Version)
	if anew || w.urgent == nil || *w.urgent != h.urgent {
		if err := w.readSettings(ctx, []Kind{TiersDocument, SwitchDocument}, false); err != nil {
			return found, err
		}
		if w.told() {
			w.urgent = &h.urgent
		}
	}
	switch {
	case v == nil:
		return seen{rules: true, all: true}, nil
	case anew:
		w.restart(v, h.Point, fmt.Errorf("%w (version %d was read, it is %d)", ErrHistory, v.at.Version, h.Version))
		return seen{rules: true, all: true}, nil
	case h.Version == v.at.Version:
		w.readAt.Store(time.Now().UnixMicro())
		if w.unconfirmed {
			w.publish(v.snapshot, v.at)
		}
		return seen{rules: !w.told()}, nil
	case h.Version > v.at.Version+maxChanged:
		w.restart(v, h.Point, nil)
		return seen{rules: true, all: true}, nil
	}
	p, err := w.db.page(ctx, v.at)
	if errors.Is(err, ErrHistory) {
		if err := w.gone(ctx, v.at, &h); err != nil {
			return found, err
		}
		w.urgent = nil
		w.restart(v, h.Point, err)
		return seen{rules: true, all: true, more: true}, nil
	} else if err != nil {
		return found, err
	}
	accounts, err := w.accounts(ctx, p.subjects, &w.left)
	if err != nil {
		return found, err
	}
	w.page(Page{From: v.at, To: p.end, Accounts: accounts})
	w.publish(v.snapshot.With(accounts...), p.end)
	return seen{rules: p.rules, more: p.full}, nil
}

// isAnew reports whether the history that h is of is another one than that of what was
// read. An error says that it is not, or not known to be: then a replica is behind.
func (w *Watcher) isAnew(ctx context.Context, v *view, h *head) (bool, error) {
	at := Point{Version: w.db.seen()}
	if v == nil && h.Version >= at.Version {
		return false, nil
	}
	if v != nil {
		if h.leads(v.at) {
			return false, nil
		}
		at = v.at
	}
	if err := w.gone(ctx, at, h); err != nil {
		return false, err
	}
	return v != nil, nil
}

// gone returns nil where a point that was read, and that h does not lead to, is no part of
// the history any more.
func (w *Watcher) gone(ctx context.Context, at Point, h *head) error {
	if w.options.Gone != nil {
		is, err := stepWithin(ctx, stepTimeout, func(ctx context.Context) (bool, error) { return w.options.Gone(ctx, at) })
		if err != nil {
			return fmt.Errorf("%w (version %d was read, it has %d), or has another history, and that cannot be told: %w", ErrBehind, at.Version, h.Version, err)
		}
		if !is {
			return fmt.Errorf("%w (version %d was read, it has %d)", ErrBehind, at.Version, h.Version)
		}
	}
	w.db.unsaw(h.Version)
	return nil
}

// restart follows changes from a point on, on the accounts that are known, until all of
// them were read again.
func (w *Watcher) restart(v *view, at Point, why error) {
	w.current.Store(&view{v.snapshot, at})
	w.page(Page{From: at, To: at, Anew: true})
	if why != nil {
		w.tell(why)
	}
}

// take puts what a load has read in force.
func (w *Watcher) take(l *loaded) {
	w.left = l.left
	for _, p := range l.pages {
		w.page(p)
	}
	w.publish(l.snapshot, l.at)
}

func (w *Watcher) publish(s *tenant.Snapshot, at Point) {
	w.current.Store(&view{s, at})
	w.db.saw(at.Version)
	w.unconfirmed = false
	w.readAt.Store(time.Now().UnixMicro())
	w.skipped.Store(w.left.accounts)
	w.parts.Store(w.left.parts)
	if w.sums != nil {
		w.sums[at.Version] = w.held(s)
	}
	if w.options.OnChange != nil {
		w.options.OnChange(s, at)
	}
}

// held returns what a count finds where a database has what s is made of.
func (w *Watcher) held(s *tenant.Snapshot) sums {
	return sums{int64(s.Len()) + w.left.sums.accounts, int64(s.Parts()) + w.left.sums.parts}
}

// readSettings reads documents of some kinds, and rows of rules if they are asked for,
// and tells of all settings if they are not those that were told last.
func (w *Watcher) readSettings(ctx context.Context, kinds []Kind, rows bool) error {
	if w.options.OnSettings == nil {
		return nil
	}
	s, bad, err := w.db.settings(ctx, kinds, rows)
	if err != nil {
		return err
	}
	for _, err := range bad {
		w.tell(err)
	}
	w.telling.Lock()
	defer w.telling.Unlock()
	if w.settings != nil {
		s.keepOthers(w.settings, kinds, rows)
	} else if !rows {
		return nil // all is told at first
	}
	if w.settings == nil || !w.settings.Equal(&s) {
		w.settings = &s
		w.options.OnSettings(s)
	}
	return nil
}

// told reports whether settings were told, or nobody wants to hear of them.
func (w *Watcher) told() bool {
	w.telling.Lock()
	defer w.telling.Unlock()
	return w.settings != nil || w.options.OnSettings == nil
}

// keepOthers takes over from before what was not read.
func (s *Settings) keepOthers(before *Settings, read []Kind, rows bool) {
	for i := range before.Documents {
		if d := &before.Documents[i]; !slices.Contains(read, d.Kind) {
			s.Documents = append(s.Documents, *d)
		}
	}
	order := func(k Kind) int { return slices.Index(documentKinds, k) }
	slices.SortStableFunc(s.Documents, func(a, b Document) int { return cmp.Compare(order(a.Kind), order(b.Kind)) })
	if !rows {
		s.RuleRows = before.RuleRows
	}
}

// step asks the database one thing, within stepTimeout.
func step[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	return stepWithin(ctx, stepTimeout, ask)
}

func stepWithin[T any](ctx context.Context, most time.Duration, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return ask(ctx)
}

func (w *Watcher) tell(err error) {
	if w.options.OnError != nil {
		w.options.OnError(err)
	}
}
