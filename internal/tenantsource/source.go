package tenantsource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/accountfile"
	"github.com/headgate/headgate/internal/linelimit"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/snapfeed"
	"github.com/headgate/headgate/internal/switchboard"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

const (
	// openTimeout bounds one try to open the database of tenants, with its migrations.
	openTimeout = time.Minute
	// reopenMin and reopenMax bound the pause after a try that failed, which doubles.
	reopenMin, reopenMax = 250 * time.Millisecond, 5 * time.Second
	// keepEvery is how often what changed is written to --tenants-file at most, but for
	// the end of the process.
	keepEvery = 10 * time.Second
)

// tenantLines is how many lines the trouble of one kind gets in the log: five at
// once, one in a minute on average.
var tenantLines = linelimit.PerMinute(1, 5)

var (
	errNoTenants      = errors.New("what tenants may use is not known yet: the database of tenants has not answered")
	errNoSnapshot     = errors.New("what tenants may use is not known yet: no admin process has answered with a snapshot")
	errReadingTenants = errors.New("what tenants may use is not known yet: the database of tenants is being read")
)

// Options are those of a Source. Limiter, Unfit and Logger are required, and Rules with
// a Database.
type Options struct {
	// Tiers is the file of tiers, "" for none, and Poll how often it is read.
	Tiers string
	Poll  time.Duration
	// Database is where accounts are, as sqltenant.Open takes it; "" for nowhere.
	Database string
	// Replica is what is read of Database, as sqltenant.OpenReplica takes it: Database is
	// then written to alone, and its reads are for who writes. "" for Database itself.
	Replica string
	// Via is as sqltenant.OpenVia takes it.
	Via func(dial sqltenant.Dialer) sqltenant.Dialer
	// Kept is the file that keeps what the database says, "" for none.
	Kept string
	// Dir is where accounts are in a file, of which memory holds a part; "" holds all of
	// them in memory.
	Dir string
	// Publish, when not nil, gives what the database says to others; it takes a Dir.
	Publish *snapfeed.Publisher
	// Follow, when not nil, is how that comes here without a database; it takes a Dir.
	Follow  func(snapfeed.FollowerOptions) *snapfeed.Follower
	Limiter *headgate.Limiter
	Rules   *rulesource.Source
	// Unfit says why the store of that name, "" for the usual ones, cannot decide a limit, and
	// without a limit why there is no such store; nil when it can.
	Unfit func(store string, l *limit.Limit) error
	// OnRaise, when not nil, is told of raises of limits; see switchboard.InForce.
	OnRaise func(switchboard.Raise)
	Logger  *slog.Logger
}

// Source keeps what tenants may use in force in a limiter. No decision waits for
// it: while the database is away the accounts that were read last count. A nil Source
// is one without tiers and without a database. Make one with New.
type Source struct {
	Options

	// reading is held while the file of tiers is read, which may take as long as a disk hangs. So
	// nobody else may wait for it: it is taken before mu.
	reading sync.Mutex

	mu struct {
		sync.Mutex
		tiers tierSources
		// accounts are nil until they were read, of the database or of the file;
		// their tiers are not those in force.
		accounts *tenant.Snapshot
		version  int64
		digest   string // of the history up to it; "" of the file
		fromFile bool
		savedAt  time.Time // of the file
		err      error     // of the last read
	}
	watcher atomic.Pointer[sqltenant.Watcher] // nil until the database was opened
	db      atomic.Pointer[sqltenant.DB]      // as watcher, but of the primary; for the admin API
	replica *replica                          // nil: what is read is what is written to
	failed  atomic.Uint64
	// histories is how often the database had another history than the one read.
	histories atomic.Uint64
	told      atomic.Pointer[string] // what was wrong with the file of tiers
	skipped   linelimit.Limiter
	// documents is what the database says beside accounts; nil without one.
	documents *documents
	disk      *disk // nil: all accounts are in memory
	// published is the file that others were given last; only who reads the database uses it.
	published  *accountfile.File
	publishing sync.WaitGroup
	follower   *snapfeed.Follower // nil: there is a database, or none of what it would say
	// changed holds one value while something is to be kept.
	changed sleep.Nudge
	// kept is what the file has; only keep uses it.
	kept keptVersions
}

// New returns a Source that has read its file of tiers.
func New(o Options) (*Source, error) {
	t := &Source{Options: o, changed: sleep.NewNudge(), kept: keptVersions{accounts: -1}, replica: newReplica(o.Replica)}
	if err := t.loadTiers(); err != nil {
		return nil, err
	}
	if o.Dir != "" {
		t.disk = &disk{dir: o.Dir, logger: o.Logger}
	}
	if o.Follow != nil {
		t.documents = documentsOf(t)
		t.follower = t.follow()
		return t, nil
	}
	if o.Database == "" {
		t.inForce(tenant.NewSnapshot(new(tenant.Tiers), slices.Values([]tenant.Account(nil))), sqltenant.Point{})
		return t, nil
	}
	if err := sqltenant.Check(o.Database); err != nil {
		return nil, fmt.Errorf("--tenants: %w", err)
	}
	if o.Replica != "" {
		if err := sqltenant.Check(o.Replica); err != nil {
			return nil, fmt.Errorf("--tenants-replica: %w", err)
		}
	}
	t.documents = documentsOf(t)
	return t, nil
}

func documentsOf(t *Source) *documents {
	switching := switchboard.NewInForce(t.Limiter, t.Logger)
	switching.OnRaise = t.OnRaise
	return &documents{
		switching: switching, rules: t.Rules, tiers: t.storedTiers, logger: t.Logger, changed: sleep.NewNudge(),
	}
}

// Tasks are what is to run until the end of the process.
func (t *Source) Tasks() []func(context.Context) {
	var tasks []func(context.Context)
	switch {
	case t.follower != nil:
		tasks = append(tasks, t.runFollower)
	case t.documents != nil:
		tasks = append(tasks, t.Watch)
		if t.replica != nil {
			tasks = append(tasks, t.keepPrimary)
		}
		if t.Kept != "" && t.replica == nil {
			tasks = append(tasks, t.loadFile)
		}
		if t.Kept != "" {
			tasks = append(tasks, t.keep)
		}
	}
	if t.Tiers != "" {
		tasks = append(tasks, t.watchTiers)
	}
	return tasks
}

// Database returns the database that is written to, nil while it has not been opened.
func (t *Source) Database() *sqltenant.DB { return t.db.Load() }

// TiersInForce returns the tiers, never nil.
func (t *Source) TiersInForce() *tenant.Tiers {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.tiers.inForce()
}

// inForce puts accounts in force, under the tiers that there are.
func (t *Source) inForce(accounts *tenant.Snapshot, at sqltenant.Point) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.accounts, t.mu.version, t.mu.digest, t.mu.fromFile = accounts, at.Version, at.Digest, false
	t.applyLocked()
}

func (t *Source) applyLocked() {
	if t.mu.accounts != nil {
		t.Limiter.SetTenants(t.mu.accounts.WithTiers(t.mu.tiers.inForce()))
	}
}

// Watch keeps the accounts of the database in force until ctx ends.
func (t *Source) Watch(ctx context.Context) {
	if t.disk != nil {
		t.beginFromDisk()
	}
	if t.Kept != "" && t.replica != nil {
		t.loadFile(ctx) // first: a replica may be behind it
	}
	var compiling sync.WaitGroup
	defer compiling.Wait()
	defer t.publishing.Wait()
	defer t.endDisk()
	compiling.Go(func() { t.documents.compile(ctx) })
	for pause := reopenMin; ; pause = min(2*pause, reopenMax) {
		err := t.watchOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		t.tell(err)
		if sleep.For(ctx, pause) != nil {
			return
		}
	}
}

// watchOnce opens the database and follows it until ctx ends.
func (t *Source) watchOnce(ctx context.Context) error {
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	db, err := t.openRead(opening)
	if err != nil {
		return err
	}
	defer db.Close()
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { t.followReplica(ctx, db) })
	w := sqltenant.NewWatcher(db, new(tenant.Tiers), t.watching())
	if t.disk != nil && t.disk.begin != nil {
		w.Begin(t.disk.begin, t.disk.at)
	}
	t.watcher.Store(w)
	if t.replica == nil {
		t.db.Store(db)
	}
	w.Run(ctx)
	return ctx.Err()
}

// changedTo puts a snapshot of the database in force.
func (t *Source) changedTo(s *tenant.Snapshot, at sqltenant.Point) {
	t.mu.Lock()
	first, news := t.mu.accounts == nil || t.mu.fromFile, t.mu.version != at.Version
	t.mu.err = nil
	t.mu.Unlock()
	t.inForce(s, at)
	t.publishBase(s)
	if first {
		t.Logger.Info("accounts of tenants in force", "accounts", s.Len(), "version", at.Version)
	} else if news {
		t.Logger.Debug("accounts of tenants have changed", "accounts", s.Len(), "version", at.Version)
	}
	t.keepSoon()
}

// documentsChangedTo puts what the database says beside accounts in force.
func (t *Source) documentsChangedTo(s sqltenant.Settings) {
	t.documents.inForce(s)
	t.keepSettings(s)
	t.keepSoon()
}

// keepSoon asks keep to write the file.
func (t *Source) keepSoon() { t.changed.Give() }

// tell notes that reading accounts has failed, or works again (nil), or that one of
// them cannot be used.
func (t *Source) tell(err error) {
	if errors.Is(err, sqltenant.ErrInvalid) {
		if untold, ok := t.skipped.MayTell(tenantLines, time.Now()); ok {
			t.Logger.Error("invalid entries in the tenant database ignored", "error", err, "others_since", untold)
		}
		return
	}
	if errors.Is(err, sqltenant.ErrHistory) {
		t.histories.Add(1)
		t.Logger.Warn("the database of tenants has another history; what was read last stays in force until all is read again", "error", err)
		return
	}
	t.mu.Lock()
	before := t.mu.err
	t.mu.err = err
	known := t.mu.accounts != nil
	t.mu.Unlock()
	if err == nil {
		t.Logger.Info(t.where() + " answers again")
		return
	}
	t.failed.Add(1)
	trouble := sqltenant.Trouble(err)
	if before == nil || sqltenant.Trouble(before) != trouble {
		t.Logger.Error(t.where()+" "+trouble+"; what was read last stays in force", "known", known, "error", err)
	}
}

// where is where accounts come from.
func (t *Source) where() string {
	if t.follower != nil {
		return "the admin process of snapshots"
	}
	if t.replica != nil {
		return "the replica of the database of tenants"
	}
	return "the database of tenants"
}

// Ready returns why this process should get no traffic: it does not know yet what
// tenants may use.
func (t *Source) Ready() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.accounts == nil {
		return t.waitsFor()
	}
	return t.documents.ready()
}

// waitsFor returns what is missing while no accounts are known.
func (t *Source) waitsFor() error {
	if t.follower != nil {
		return errNoSnapshot
	}
	if w := t.watcher.Load(); w != nil {
		if n, ok := w.Reading(); ok {
			return fmt.Errorf("%w: %d accounts were read so far", errReadingTenants, n)
		}
	}
	return errNoTenants
}

// State returns what metrics show.
func (t *Source) State() telemetry.Tenants {
	now := time.Now()
	t.mu.Lock()
	s := telemetry.Tenants{Version: t.mu.version, FromFile: t.mu.fromFile, TiersStale: errors.Join(t.mu.tiers.fileErr, t.mu.tiers.storedErr) != nil}
	if t.mu.accounts != nil {
		s.Accounts = int64(t.mu.accounts.Len())
		looked := t.mu.accounts.Lookups()
		s.OnDisk, s.Misses, s.Unreadable = t.mu.accounts.Base() != nil, looked.Misses, looked.Failures
		s.Beside = int64(t.mu.accounts.Changes())
	}
	if t.mu.fromFile {
		s.Age = now.Sub(t.mu.savedAt).Seconds()
	}
	t.mu.Unlock()
	s.FailedReads, s.Histories = t.failed.Load(), t.histories.Load()
	if t.follower != nil {
		s.Refused = t.follower.Refused()
		if at := t.follower.ReadAt(); !at.IsZero() {
			s.Age = now.Sub(at).Seconds()
		}
	}
	if w := t.watcher.Load(); w != nil {
		s.Skipped, s.SkippedParts = w.Skipped()
		if at := w.ReadAt(); !at.IsZero() {
			s.Age = now.Sub(at).Seconds()
		}
	}
	return s
}

// Report is what /readyz says of tenants.
type Report struct {
	OK       bool   `json:"ok"`
	Accounts int    `json:"accounts"`
	Version  int64  `json:"version"`
	FromFile bool   `json:"from_file,omitempty"`
	Error    string `json:"error,omitempty"`
	// Replica is missing where what is read is what is written to.
	Replica *view.Replica `json:"replica,omitempty"`
}

// Report returns it, nil without tenants.
func (t *Source) Report() *Report {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &Report{Version: t.mu.version, FromFile: t.mu.fromFile, Replica: t.Replica().view()}
	if t.mu.accounts != nil {
		r.Accounts = t.mu.accounts.Len()
	}
	err := errors.Join(t.mu.tiers.fileErr, t.mu.err)
	if err == nil && (t.mu.accounts == nil || t.mu.fromFile) {
		err = t.waitsFor()
	}
	if r.OK = err == nil; err != nil {
		r.Error = fmt.Sprint(err)
	}
	return r
}
