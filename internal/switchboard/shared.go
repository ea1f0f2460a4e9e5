package switchboard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/regular"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant/sqltenant"
)

const (
	// register is the name of what the store keeps.
	register = "switches"
	// lookEvery is how often the store is asked whether something was switched: so late
	// is a switch in force on other nodes.
	lookEvery = time.Second
	// lookTimeout bounds one such question.
	lookTimeout = time.Second
	// maxTries bounds how often a change is tried again because somebody else was first.
	maxTries = 20
)

// SharedOptions configures a Shared.
type SharedOptions struct {
	// Register is the store that all nodes share; nil: this process is alone.
	Register store.Register
	// File keeps what was read last, for a start without the store; "" is none.
	File string
	// OnChange, when not nil, is told of all switches when one of them has changed, and
	// of the newest version. No two calls overlap.
	OnChange func(switched []sqltenant.Document, version int64)
	// Logger is told of trouble. Required with Run and Start.
	Logger *slog.Logger
}

// Shared are the switches of nodes that share a store and no database. Each node knows
// what was last said of every target, and so puts back what the store has lost. Make one
// with NewShared.
type Shared struct {
	options SharedOptions

	// working is held while what is known and the register are made the same.
	working sync.Mutex
	at      int64 // version of the register that was read last

	mu      sync.Mutex
	known   entries
	failing bool
}

// NewShared returns Shared that knows of no switch yet.
func NewShared(o SharedOptions) *Shared { return &Shared{options: o, known: entries{}} }

// Start reads the file, and asks the store once: a node that starts shall not decide
// without its switches if that can be helped. A store that does not answer is no error.
func (s *Shared) Start(ctx context.Context) {
	s.load()
	s.look(ctx)
}

// Run follows the store until ctx ends.
func (s *Shared) Run(ctx context.Context) {
	if s.options.Register == nil {
		return
	}
	for range sleep.Every(ctx, lookEvery) {
		s.look(ctx)
	}
}

// look reads the register, and puts back what it lacks. Trouble is logged when it begins.
func (s *Shared) look(ctx context.Context) {
	if s.options.Register == nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s.working.Lock()
	err := s.syncLocked(bounded)
	s.working.Unlock()
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	begins, ends := err != nil && !s.failing, err == nil && s.failing
	s.failing = err != nil
	s.mu.Unlock()
	if begins {
		s.options.Logger.Warn("the switches in the store cannot be read; those that are known stay in force", "error", err)
	}
	if ends {
		s.options.Logger.Info("the switches in the store can be read again")
	}
}

// syncLocked makes what is known and what the register has the same, by what is newest of
// each target.
func (s *Shared) syncLocked(ctx context.Context) error {
	version, data, err := s.options.Register.ReadRegister(ctx, register, s.at)
	if err != nil {
		return err
	}
	if version == s.at && version != 0 {
		return nil // nothing has changed since it was read, or written
	}
	there := entries{}
	if version != 0 {
		if there, err = decode(data); err != nil {
			return fmt.Errorf("read the switches in the store: %w; hint: delete its register of switches, and the nodes write it anew", err)
		}
	}
	s.mu.Lock()
	all := merge(s.known, there)
	s.mu.Unlock()
	s.learn(all)
	if maps.Equal(all, there) {
		s.at = version
		return nil
	}
	return s.putBackLocked(ctx, all, version)
}

// putBackLocked writes what the register lacks. Where somebody else is first, the next look
// sees what is there then.
func (s *Shared) putBackLocked(ctx context.Context, all entries, from int64) error {
	now := time.Now()
	data, err := all.encode(now)
	if err != nil {
		return err
	}
	kept, err := decode(data)
	if err != nil {
		return err
	}
	to := nextVersion(now, from)
	done, err := s.options.Register.ReplaceRegister(ctx, register, from, to, data)
	if err != nil {
		return err
	}
	if done {
		s.at = to
		s.learn(kept)
	}
	return nil
}

// nextVersion is one after a version, or the time if that is later: a store that has
// lost its register does not begin with versions that some node has read before.
func nextVersion(now time.Time, before int64) int64 { return max(now.UnixMicro(), before+1) }

// learn makes all what is known, and tells of it if that is news.
func (s *Shared) learn(all entries) {
	s.mu.Lock()
	same := maps.Equal(s.known, all)
	s.known = all
	s.mu.Unlock()
	if same {
		return
	}
	s.save(all)
	if s.options.OnChange != nil {
		s.options.OnChange(all.documents(), all.version())
	}
}

// load reads the file.
func (s *Shared) load() {
	if s.options.File == "" {
		return
	}
	data, err := regular.Read(s.options.File, store.MaxRegister)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var all entries
	if err == nil {
		all, err = decode(data)
	}
	if err != nil {
		s.options.Logger.Error("the switches that were kept cannot be used", "file", s.options.File, "error", err)
		return
	}
	s.working.Lock()
	defer s.working.Unlock()
	s.learn(merge(s.known, all))
}

// save writes the file.
func (s *Shared) save(all entries) {
	if s.options.File == "" {
		return
	}
	data, err := all.encode(time.Now())
	if err == nil {
		err = rulesource.WriteWhole(s.options.File, data)
	}
	if err != nil {
		s.options.Logger.Warn("switches were not kept; a start without the store does not know of them; hint: --state-dir names a directory that can be written", "error", err)
	}
}

// Document returns one switch, as sqltenant.DB does.
func (s *Shared) Document(ctx context.Context, _ sqltenant.Kind, name string) (sqltenant.Document, error) {
	all, err := s.read(ctx)
	if err != nil {
		return sqltenant.Document{}, err
	}
	e := all[name]
	e.Name = name
	return e.document(), nil
}

// Documents returns all switches, as sqltenant.DB does.
func (s *Shared) Documents(ctx context.Context, _ sqltenant.Kind) ([]sqltenant.Document, error) {
	all, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	return all.documents(), nil
}

// read returns what is known after a look into the store.
func (s *Shared) read(ctx context.Context) (entries, error) {
	s.working.Lock()
	defer s.working.Unlock()
	if s.options.Register != nil {
		if err := s.syncLocked(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known, nil
}

// PutDocument makes a switch what c says, as sqltenant.DB does.
func (s *Shared) PutDocument(ctx context.Context, c sqltenant.DocumentChange) (sqltenant.Document, error) {
	if c.Kind != sqltenant.SwitchDocument {
		return sqltenant.Document{}, fmt.Errorf("%w: documents of the kind %s are kept in a database; hint: --tenants", sqltenant.ErrInvalid, c.Kind)
	}
	next := entry{Name: c.Name, Text: c.Text, Version: 1, UpdatedAt: c.At.UnixMicro(), UpdatedBy: c.Actor}
	if err := next.check(); err != nil {
		return sqltenant.Document{}, fmt.Errorf("%w: %w", sqltenant.ErrInvalid, err)
	}
	s.working.Lock()
	defer s.working.Unlock()
	for range maxTries {
		after, done, err := s.putLocked(ctx, next, c.Version)
		if err != nil || done {
			return after, err
		}
	}
	return sqltenant.Document{}, fmt.Errorf("%w: others change switches all the time", sqltenant.ErrConflict)
}

// putLocked tries a change once. It reports false where somebody else was first.
func (s *Shared) putLocked(ctx context.Context, next entry, version int64) (after sqltenant.Document, done bool, err error) {
	if s.options.Register != nil {
		if err := s.syncLocked(ctx); err != nil {
			return after, false, err
		}
	}
	s.mu.Lock()
	all := maps.Clone(s.known)
	s.mu.Unlock()
	last := all[next.Name]
	before := last.document()
	switch {
	case version != sqltenant.Anyway && version != before.Version:
		return before, false, fmt.Errorf("%w: the switch is in version %d, not %d", sqltenant.ErrConflict, before.Version, version)
	case next.Text == before.Text:
		before.Name = next.Name
		return before, true, nil
	}
	next.Version = nextVersion(time.UnixMicro(next.UpdatedAt), last.Version)
	if next.Version > store.MaxRegisterVersion {
		return before, false, fmt.Errorf("%w: version %d of the switch is the last one that there can be; hint: the clock of who has changed it was wrong; delete the register of switches from the store and the files in --state-dir", sqltenant.ErrInvalid, last.Version)
	}
	all[next.Name] = next
	if s.options.Register == nil {
		if _, err := all.encode(time.Now()); err != nil {
			return before, false, err
		}
		s.learn(all)
		return next.document(), true, nil
	}
	was := s.at
	if err := s.putBackLocked(ctx, all, was); err != nil {
		return before, false, err
	}
	return next.document(), s.at != was, nil
}
