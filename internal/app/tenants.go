package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/tierfile"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

const (
	// openTimeout bounds one try to open the database of tenants, with its migrations.
	openTimeout = time.Minute
	// reopenMin and reopenMax bound the pause after a try that failed, which doubles.
	reopenMin, reopenMax = 250 * time.Millisecond, 5 * time.Second
	// keepEvery is how often accounts that changed are written to --tenants-file at
	// most.
	keepEvery = 10 * time.Second
)

// tenantLines is how many lines the trouble of one kind gets in the log: five at
// once, one in a minute on average.
var tenantLines = limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 1, Period: time.Minute, Burst: 5})

var errNoTenants = errors.New("what tenants may use is not known yet: the database of tenants has not answered")

// tenants keeps what tenants may use in force in a limiter. No decision waits for
// it: while the database is away the accounts that were read last count.
type tenants struct {
	settings *config.Settings
	limiter  *headgate.Limiter
	logger   *slog.Logger
	// unfit says why the stores cannot decide a limit; nil when they decide all.
	unfit func(*limit.Limit) error

	mu struct {
		sync.Mutex
		tiersText []byte
		tiers     *tenant.Tiers
		tiersErr  error
		// accounts are nil until they were read, of the database or of the file;
		// their tiers are not those in force.
		accounts *tenant.Snapshot
		version  int64
		fromFile bool
		savedAt  time.Time // of the file
		err      error     // of the last read
	}
	watcher atomic.Pointer[sqltenant.Watcher] // nil until the database was opened
	db      atomic.Pointer[sqltenant.DB]      // as watcher; for the admin API
	failed  atomic.Uint64
	told    atomic.Pointer[string] // what was wrong with the file of tiers
	skipped lineLimit
	// changed holds one value while accounts are to be kept.
	changed chan struct{}
	// kept is the version in the file; only keep uses it.
	kept int64
}

// watchTenants makes the parts that tell what tenants may use, if settings name any.
func (p *process) watchTenants() error {
	s := p.settings
	if s.Tiers == "" && s.Tenants == (config.DatabaseURL{}) {
		return nil
	}
	t := &tenants{settings: s, limiter: p.limiter, logger: p.logger, unfit: p.stack.unfit, changed: make(chan struct{}, 1), kept: -1}
	if err := t.loadTiers(); err != nil {
		return err
	}
	if s.Tenants == (config.DatabaseURL{}) {
		t.inForce(tenant.NewSnapshot(new(tenant.Tiers), slices.Values([]tenant.Account(nil))), 0)
	} else {
		p.tasks = append(p.tasks, t.watch)
		if s.TenantsFile != "" {
			p.tasks = append(p.tasks, t.loadFile, t.keep)
		}
	}
	if s.Tiers != "" {
		p.tasks = append(p.tasks, t.watchTiers)
	}
	p.health.tenants = t
	p.metrics.WatchTenants(t.state)
	return nil
}

// loadTiers reads the file of tiers, if there is one and it is not that in force. A
// file that is refused changes nothing.
func (t *tenants) loadTiers() error {
	if t.settings.Tiers == "" {
		t.mu.tiers = new(tenant.Tiers)
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	tiers, text, err := tierfile.LoadChanged(t.settings.Tiers, t.mu.tiersText)
	if t.mu.tiersErr = err; err != nil || tiers == nil {
		return err
	}
	t.mu.tiersText, t.mu.tiers = text, tiers
	t.logger.Info("tiers in force", "tiers", tiers.Names(), "fallback", tiers.Fallback())
	t.tellUnfit(tiers)
	t.applyLocked()
	return nil
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

// inForce puts accounts in force, under the tiers that there are.
func (t *tenants) inForce(accounts *tenant.Snapshot, version int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.accounts, t.mu.version, t.mu.fromFile = accounts, version, false
	t.applyLocked()
}

func (t *tenants) applyLocked() {
	if t.mu.accounts != nil {
		t.limiter.SetTenants(t.mu.accounts.WithTiers(t.mu.tiers))
	}
}

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

// watch keeps the accounts of the database in force until ctx ends.
func (t *tenants) watch(ctx context.Context) {
	for pause := reopenMin; ; pause = min(2*pause, reopenMax) {
		err := t.watchOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		t.tell(err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// watchOnce opens the database and follows it until ctx ends.
func (t *tenants) watchOnce(ctx context.Context) error {
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	db, err := sqltenant.Open(opening, t.settings.Tenants.Reveal())
	if err != nil {
		return err
	}
	defer db.Close()
	w := sqltenant.NewWatcher(db, new(tenant.Tiers), sqltenant.WatcherOptions{OnChange: t.changedTo, OnError: t.tell})
	t.watcher.Store(w)
	t.db.Store(db)
	w.Run(ctx)
	return ctx.Err()
}

// changedTo puts a snapshot of the database in force.
func (t *tenants) changedTo(s *tenant.Snapshot, version int64) {
	t.mu.Lock()
	first, news := t.mu.accounts == nil || t.mu.fromFile, t.mu.version != version
	t.mu.err = nil
	t.mu.Unlock()
	t.inForce(s, version)
	if first {
		t.logger.Info("accounts of tenants in force", "accounts", s.Len(), "version", version)
	} else if news {
		t.logger.Debug("accounts of tenants have changed", "accounts", s.Len(), "version", version)
	}
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// tell notes that reading accounts has failed, or works again (nil), or that one of
// them cannot be used.
func (t *tenants) tell(err error) {
	if errors.Is(err, sqltenant.ErrInvalid) {
		if untold, ok := t.skipped.mayTell(tenantLines, limit.MicrosOf(time.Now())); ok {
			t.logger.Error("an account is not in force since it cannot be", "error", err, "untold", untold)
		}
		return
	}
	t.mu.Lock()
	before := t.mu.err
	t.mu.err = err
	known := t.mu.accounts != nil
	t.mu.Unlock()
	if err == nil {
		t.logger.Info("the database of tenants answers again")
		return
	}
	t.failed.Add(1)
	if before == nil {
		t.logger.Error("the database of tenants does not answer; the accounts that were read last stay in force", "known", known, "error", err)
	}
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

// ready returns why this process should get no traffic: it does not know yet what
// tenants may use.
func (t *tenants) ready() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.accounts == nil {
		return errNoTenants
	}
	return nil
}

// state returns what metrics show.
func (t *tenants) state() telemetry.Tenants {
	now := time.Now()
	t.mu.Lock()
	s := telemetry.Tenants{Version: t.mu.version, FromFile: t.mu.fromFile, TiersStale: t.mu.tiersErr != nil}
	if t.mu.accounts != nil {
		s.Accounts = int64(t.mu.accounts.Len())
	}
	if t.mu.fromFile {
		s.Age = now.Sub(t.mu.savedAt).Seconds()
	}
	t.mu.Unlock()
	s.FailedReads = t.failed.Load()
	if w := t.watcher.Load(); w != nil {
		s.Skipped = w.Skipped()
		if at := w.ReadAt(); !at.IsZero() {
			s.Age = now.Sub(at).Seconds()
		}
	}
	return s
}

// tenantsReport is what /readyz says of tenants.
type tenantsReport struct {
	OK       bool   `json:"ok"`
	Accounts int    `json:"accounts"`
	Version  int64  `json:"version"`
	FromFile bool   `json:"from_file,omitempty"`
	Error    string `json:"error,omitempty"`
}

func (t *tenants) report() *tenantsReport {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &tenantsReport{Version: t.mu.version, FromFile: t.mu.fromFile}
	if t.mu.accounts != nil {
		r.Accounts = t.mu.accounts.Len()
	}
	err := errors.Join(t.mu.tiersErr, t.mu.err)
	if err == nil && (t.mu.accounts == nil || t.mu.fromFile) {
		err = errNoTenants
	}
	if r.OK = err == nil; err != nil {
		r.Error = fmt.Sprint(err)
	}
	return r
}
