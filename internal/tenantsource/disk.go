package tenantsource

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/accountfile"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

const (
	// filePrefix and fileSuffix stand around the time at which a file of accounts was made.
	filePrefix, fileSuffix = "read-", ".accounts"
	// writeShare is how many times as long as it has taken the next file waits, from
	// writeMin to writeMax: what has changed since a file was written is lost to a start
	// without the database, when this process does not end gently.
	writeShare         = 100
	writeMin, writeMax = 10 * time.Second, 10 * time.Minute
	// settingsName is the name of the file of what the database says beside accounts.
	settingsName = "settings"
)

// disk is the directory of the accounts that were read of a database.
type disk struct {
	dir    string
	logger *slog.Logger

	// begin is what was there at the start, at its point.
	begin *tenant.Snapshot
	at    sqltenant.Point

	mu   sync.Mutex // of who writes
	next time.Time  // when a file is written although few accounts have changed
}

// open opens the newest file that is whole, and returns when it was made.
func (d *disk) open() (made time.Time) {
	if err := os.MkdirAll(d.dir, 0o750); err != nil {
		d.logger.Error("accounts cannot be kept; hint: --tenants-dir names a directory that can be written", "error", err)
		return made
	}
	_, _ = rulesource.Sweep(d.dir) // now, because nobody writes there yet; else at the next start
	names := d.names()
	for _, name := range slices.Backward(names) {
		path := filepath.Join(d.dir, name)
		f, err := accountfile.Open(path)
		if err != nil {
			d.logger.Error("a file of accounts cannot be used", "error", err)
			continue
		}
		d.begin, d.at = tenant.NewSnapshotOver(new(tenant.Tiers), f), f.Point
		d.clean(name)
		if info, err := os.Stat(path); err == nil {
			made = info.ModTime()
		}
		return made
	}
	return made
}

// names returns those of the files of accounts, the newest last.
func (d *disk) names() (list []string) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, filePrefix) && strings.HasSuffix(name, fileSuffix) {
			list = append(list, name)
		}
	}
	return list
}

// clean removes files of accounts but for one, and what was not finished. What is open
// stays readable.
func (d *disk) clean(but string) {
	unfinished, _ := filepath.Glob(filepath.Join(d.dir, "*.tmp"))
	for _, path := range unfinished {
		_ = os.Remove(path) // the next time, then
	}
	for _, name := range d.names() {
		if name != but {
			_ = os.Remove(filepath.Join(d.dir, name))
		}
	}
}

// path returns that of a file that is made now; later ones come later in their order.
func (d *disk) path() string {
	return filepath.Join(d.dir, fmt.Sprintf("%s%019d%s", filePrefix, time.Now().UnixNano(), fileSuffix))
}

// build writes a file of all accounts. Where they cannot all be read, the one that there is
// stays.
func (d *disk) build(at sqltenant.Point, accounts iter.Seq2[tenant.Account, error]) (*tenant.Snapshot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var unread error
	f, err := accountfile.Write(d.path(), at, func(yield func(tenant.Account, error) bool) {
		for a, err := range accounts {
			unread = err
			if !yield(a, err) {
				return
			}
		}
	})
	if unread != nil {
		return nil, unread // who reads tells of it
	}
	return d.over(f, err)
}

// compact writes a file of a snapshot that has too many changes beside its own, or has had
// some for long enough.
func (d *disk) compact(at sqltenant.Point, s *tenant.Snapshot) (*tenant.Snapshot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	began := time.Now()
	if s.Changes() == 0 || s.Changes() <= accountfile.MostChanges(s.Len()) && began.Before(d.next) {
		return nil, nil
	}
	f, err := accountfile.Merge(d.path(), at, s)
	took := time.Since(began)
	d.next = time.Now().Add(min(max(writeShare*took, writeMin), writeMax))
	if err == nil {
		d.logger.Debug("the file of accounts was written anew", "accounts", f.Len(), "changes", s.Changes(), "took", took)
	}
	return d.over(f, err)
}

// end writes what has changed since the last file, at the end of the process.
func (d *disk) end(s *tenant.Snapshot, at sqltenant.Point) {
	if s == nil || s.Changes() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := accountfile.Merge(d.path(), at, s)
	if err == nil {
		d.clean(filepath.Base(f.Path()))
		err = f.Close()
	}
	if err != nil {
		d.logger.Error("what has changed since the file of accounts was written is not kept; a start without the database goes by that file", "error", err)
	}
}

func (d *disk) over(f *accountfile.File, err error) (*tenant.Snapshot, error) {
	if err != nil {
		d.logger.Error("the file of accounts was not written; what there is stays in force; hint: is there room on the disk of --tenants-dir?", "error", err)
		return nil, err
	}
	d.clean(filepath.Base(f.Path()))
	return tenant.NewSnapshotOver(new(tenant.Tiers), f), nil
}

// keepSettings writes what the database says beside accounts.
func (d *disk) keepSettings(s *sqltenant.Settings) error {
	head := quotas.Head{Version: s.Version, SavedAt: time.Now().UTC().Truncate(time.Second), Settings: s}
	return quotas.WriteFile(filepath.Join(d.dir, settingsName), tenant.Nobody, head)
}

// settings returns what keepSettings has written, nil where there is nothing.
func (d *disk) settings() (*sqltenant.Settings, error) {
	_, head, err := quotas.ReadFile(filepath.Join(d.dir, settingsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return head.Settings, err
}
