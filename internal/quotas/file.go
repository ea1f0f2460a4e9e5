package quotas

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// MaxFile bounds a file of accounts, in bytes: some millions of them.
const MaxFile = 1 << 30

// Head is the first line of a file of accounts: what the lines after it are.
type Head struct {
	// Version is that of the last change in the database.
	Version int64 `json:"version"`
	// Accounts is the number of lines that follow.
	Accounts int `json:"accounts"`
	// SavedAt is when the file was written.
	SavedAt time.Time `json:"saved_at"`
}

// WriteFile puts a file with the accounts of s in place of the one at path: the
// Head, then a line for each account as Line writes it, without last4 and without those that
// ParseName cannot name. After a crash
// at any point the file is the old one or the new one, whole. A file larger than
// MaxFile is not written.
func WriteFile(path string, s *tenant.Snapshot, head Head) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("keep accounts: %w", err)
	}
	defer os.Remove(f.Name()) // fails once the file has its name, as it should
	for a := range s.All() {
		if nameable(a.Subject) {
			head.Accounts++
		}
	}
	err = write(f, s, head)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("keep accounts in %s: %w", path, err)
	}
	return nil
}

// nameable reports whether a line can name a subject. One that somebody has written
// into the database by other ways may have none.
func nameable(s tenant.Subject) bool {
	name, err := ParseName(NameText(s), nil)
	return err == nil && name.Subject == s
}

func write(f io.Writer, s *tenant.Snapshot, head Head) error {
	w := bufio.NewWriterSize(f, 1<<16)
	line, err := json.Marshal(head)
	if err != nil {
		return err
	}
	written, _ := w.Write(append(line, '\n')) // Flush tells of errors
	for a := range s.All() {
		if !nameable(a.Subject) {
			continue
		}
		l, err := lineOfAccount(&a)
		if err == nil {
			line, err = l.Append(line[:0])
		}
		if err != nil {
			return err
		}
		if written += len(line); written > MaxFile {
			return fmt.Errorf("more than %d bytes", MaxFile)
		}
		w.Write(line)
	}
	return w.Flush()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// ReadFile returns the accounts of a file that WriteFile has written. The error
// wraps fs.ErrNotExist when there is none. A file that is not whole is refused: with
// some accounts missing, their tenants would have the quota of others.
func ReadFile(path string) (accounts []tenant.Account, head Head, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, head, fmt.Errorf("read kept accounts: %w", err)
	}
	defer f.Close()
	if accounts, head, err = read(f); err != nil {
		return nil, head, fmt.Errorf("read kept accounts: %s: %w", path, err)
	}
	return accounts, head, nil
}

func read(f io.Reader) (accounts []tenant.Account, head Head, err error) {
	lines := bufio.NewScanner(io.LimitReader(f, MaxFile))
	lines.Buffer(make([]byte, 0, 1<<16), MaxDocument+1)
	var shared tenant.Sharer
	for number := 1; lines.Scan(); number++ {
		if number == 1 {
			if err := decode(lines.Bytes(), &head); err != nil {
				return nil, head, fmt.Errorf("line 1: %w", err)
			}
			continue
		}
		a, err := accountOf(lines.Bytes())
		if err != nil {
			return nil, head, fmt.Errorf("line %d: %w", number, err)
		}
		shared.Share(&a)
		accounts = append(accounts, a)
	}
	if err := lines.Err(); err != nil {
		return nil, head, err
	}
	if head.Version < 0 || len(accounts) != head.Accounts {
		return nil, head, fmt.Errorf("%d accounts, but the first line says %d", len(accounts), head.Accounts)
	}
	return accounts, head, nil
}

// accountOf reads a line.
func accountOf(data []byte) (tenant.Account, error) {
	l, err := ParseLine(data)
	if err != nil {
		return tenant.Account{}, err
	}
	name, err := ParseName(l.Name, nil)
	if err != nil {
		return tenant.Account{}, err
	}
	r := sqltenant.Record{Subject: name.Subject}
	if err := l.Record(&r, nil); err != nil {
		return tenant.Account{}, err
	}
	return r.Account()
}

// lineOfAccount is the inverse of accountOf.
func lineOfAccount(a *tenant.Account) (Line, error) {
	r := sqltenant.Record{Subject: a.Subject, Tiers: a.Tiers}
	for i := range a.Overrides {
		o := &a.Overrides[i]
		kept := sqltenant.Override{Descriptor: o.Descriptor, Unlimited: o.Quota.Unlimited(), Term: o.Term}
		if len(o.Quota.Limits) > 1 {
			return Line{}, errors.New("an override of several limits")
		}
		for _, l := range o.Quota.Limits {
			kept.RequestsPerUnit, kept.Unit, kept.Algorithm, kept.Burst = l.Quota, l.Period, l.Algorithm, l.Burst
			if l.Algorithm == limit.LeakyBucket || l.Algorithm == limit.LeakyQueue {
				kept.Burst = 0 // it is not a setting of theirs
			}
		}
		r.Overrides = append(r.Overrides, kept)
	}
	return LineOf(&r), nil
}
