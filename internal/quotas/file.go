package quotas

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/headgate/headgate/internal/regular"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// maxFile bounds a file of accounts, in bytes: some millions of them.
const maxFile = 1 << 30

// maxLine bounds a line of a file, in bytes: an account with all overrides that it may
// have, or a document whose every letter is escaped.
const maxLine = 16 << 20

// Head is the first line of a file of accounts: what the lines after it are.
type Head struct {
	// Version is that of the last change in the database.
	Version int64 `json:"version"`
	// Accounts is the number of lines with accounts.
	Accounts int `json:"accounts"`
	// SavedAt is when the file was written.
	SavedAt time.Time `json:"saved_at"`
	// Settings are the documents and the rows of rules, in lines after those of the
	// accounts; nil when they are not known, as in a file that was written before
	// there were any.
	Settings *sqltenant.Settings `json:"-"`
}

// firstLine is a Head as it is written.
type firstLine struct {
	// Format says how the lines are to be read: 0 is accounts alone, as it was at
	// first.
	Format int `json:"format,omitempty"`
	Head
	Settings *settingsHead `json:"settings,omitempty"`
}

// format is that of files which are written now.
const format = 2

// settingsHead says which lines follow those of the accounts.
type settingsHead struct {
	Version   int64 `json:"version"`
	Documents int   `json:"documents"`
	RuleRows  int   `json:"rule_rows"`
}

// check refuses what no file has.
func (l *firstLine) check() error {
	if l.Format != 0 && l.Format != format {
		return fmt.Errorf("format %d is not known; hint: another version of Headgate has written it, delete it", l.Format)
	}
	s := l.Settings
	switch {
	case l.Version < 0 || l.Accounts < 0:
		return errors.New("a version or a number of accounts below 0")
	case s != nil && (l.Format == 0 || s.Version < 0 || s.Documents < 0 || s.RuleRows < 0 || s.RuleRows > sqltenant.MaxRuleRows):
		return fmt.Errorf("settings that cannot be; hint: at most %d rows of rules", sqltenant.MaxRuleRows)
	}
	return nil
}

// WriteFile puts a file with the accounts of s and the settings of head in place of
// the one at path: the Head, then a line for each account as Line writes it, without
// last4 and without those that ParseName cannot name, then one for each document and
// each row of rules. After a crash at any point the file is the old one or the new
// one, whole. A file larger than maxFile is not written.
func WriteFile(path string, s *tenant.Snapshot, head Head) error {
	if err := rulesource.Replace(path, func(f *os.File) error { return Encode(f, s.All(), head) }); err != nil {
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

// Encode writes what WriteFile does.
func Encode(f io.Writer, accounts iter.Seq[tenant.Account], head Head) error {
	head.Accounts = 0
	for a := range accounts {
		if nameable(a.Subject) {
			head.Accounts++
		}
	}
	w := lineWriter{Writer: bufio.NewWriterSize(f, 1<<16)}
	first := firstLine{Format: format, Head: head}
	var settings sqltenant.Settings
	if head.Settings != nil {
		settings = *head.Settings
		first.Settings = &settingsHead{settings.Version, len(settings.Documents), len(settings.RuleRows)}
	}
	w.write(first)
	for a := range accounts {
		if !nameable(a.Subject) {
			continue
		}
		l := lineOfAccount(&a)
		w.write(&l)
	}
	for i := range settings.Documents {
		w.write(documentLine(settings.Documents[i]))
	}
	for i := range settings.RuleRows {
		w.write(rowLine(settings.RuleRows[i]))
	}
	if w.err != nil {
		return w.err
	}
	return w.Flush()
}

// lineWriter writes values as lines of JSON. It keeps its first error.
type lineWriter struct {
	*bufio.Writer
	written int
	err     error
}

func (w *lineWriter) write(value any) {
	if w.err != nil {
		return
	}
	line, err := json.Marshal(value)
	if err == nil && len(line) >= maxLine {
		err = fmt.Errorf("a line of more than %d bytes", maxLine)
	}
	if w.written += len(line) + 1; err == nil && w.written > maxFile {
		err = fmt.Errorf("more than %d bytes", maxFile)
	}
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	w.err = err
}

// documentLine and rowLine are the settings as lines. They have the fields of what
// they are made of.
type (
	documentLine struct {
		Kind      sqltenant.Kind `json:"kind"`
		Name      string         `json:"name"`
		Text      string         `json:"text"`
		Version   int64          `json:"version"`
		UpdatedAt time.Time      `json:"updated_at"`
		UpdatedBy string         `json:"updated_by"`
	}
	rowLine struct {
		ID          int64     `json:"id"`
		Scope       string    `json:"scope"`
		Route       *string   `json:"route,omitempty"`
		Method      *string   `json:"method,omitempty"`
		LimitCount  int64     `json:"limit_count"`
		WindowMS    int64     `json:"window_ms"`
		WeightField string    `json:"weight_field,omitempty"`
		Algorithm   string    `json:"algorithm,omitempty"`
		FailureMode string    `json:"failure_mode,omitempty"`
		Burst       int64     `json:"burst,omitempty"`
		Active      bool      `json:"is_active"`
		CreatedAt   time.Time `json:"created_at"`
		UpdatedAt   time.Time `json:"updated_at"`
	}
)

// ReadFile returns the accounts of a file that WriteFile has written, of this version
// or an earlier one, and the settings in its head. The error wraps fs.ErrNotExist when
// there is none. A file that is not whole is refused: with some accounts missing,
// their tenants would have the quota of others.
func ReadFile(path string) (accounts []tenant.Account, head Head, err error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, head, fmt.Errorf("read kept accounts: %w", err)
	}
	defer f.Close()
	if accounts, head, err = Decode(f); err != nil {
		return nil, Head{}, fmt.Errorf("read kept accounts: %s: %w", path, err)
	}
	return accounts, head, nil
}

// Decode is the inverse of Encode.
func Decode(f io.Reader) (accounts []tenant.Account, head Head, err error) {
	lines := lineReader{Scanner: bufio.NewScanner(io.LimitReader(f, maxFile))}
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	var first firstLine
	if err := lines.next(func(line []byte) error { return cmp.Or(decodeKept(line, &first), first.check()) }); err != nil {
		return nil, head, err
	}
	var shared tenant.Sharer
	for range first.Accounts {
		err := lines.next(func(line []byte) error {
			a, err := accountOf(line)
			shared.Share(&a)
			accounts = append(accounts, a)
			return err
		})
		if err != nil {
			return nil, head, err
		}
	}
	head = first.Head
	if first.Settings != nil {
		if head.Settings, err = lines.settings(first.Settings); err != nil {
			return nil, head, err
		}
	}
	return accounts, head, lines.end()
}

// lineReader reads the lines of a file and knows where it is.
type lineReader struct {
	*bufio.Scanner
	number int
}

// next hands over the next line, which must be there.
func (r *lineReader) next(take func(line []byte) error) error {
	r.number++
	if !r.Scan() {
		if err := r.Err(); err != nil {
			return fmt.Errorf("line %d: %w", r.number, err)
		}
		return fmt.Errorf("it ends before line %d, which the first one says is there", r.number)
	}
	if err := take(r.Bytes()); err != nil {
		return fmt.Errorf("line %d: %w", r.number, err)
	}
	return nil
}

// end refuses more lines.
func (r *lineReader) end() error {
	if r.Scan() {
		return fmt.Errorf("it has more than the %d lines that the first one says are there", r.number)
	}
	return r.Err()
}

// settings reads the lines of settings.
func (r *lineReader) settings(head *settingsHead) (*sqltenant.Settings, error) {
	s := &sqltenant.Settings{Version: head.Version}
	count := map[sqltenant.Kind]int{}
	for range head.Documents {
		err := r.next(func(line []byte) error {
			var d documentLine
			if err := decodeKept(line, &d); err != nil {
				return err
			}
			if count[d.Kind]++; count[d.Kind] > sqltenant.MaxDocuments || len(d.Text) > sqltenant.MaxDocument {
				return fmt.Errorf("documents of the kind %.64q; hint: at most %d of %d bytes", string(d.Kind), sqltenant.MaxDocuments, sqltenant.MaxDocument)
			}
			d.UpdatedAt = d.UpdatedAt.UTC()
			s.Documents = append(s.Documents, sqltenant.Document(d))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for range head.RuleRows {
		err := r.next(func(line []byte) error {
			var row rowLine
			if err := decodeKept(line, &row); err != nil {
				return err
			}
			row.CreatedAt, row.UpdatedAt = row.CreatedAt.UTC(), row.UpdatedAt.UTC()
			s.RuleRows = append(s.RuleRows, sqltenant.RuleRow(row))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// accountOf reads a line.
func accountOf(data []byte) (tenant.Account, error) {
	var l Line
	if err := decodeKept(data, &l); err != nil {
		return tenant.Account{}, err
	}
	name, err := ParseName(l.Name, nil)
	if err != nil {
		return tenant.Account{}, err
	}
	r := sqltenant.Record{Subject: name.Subject}
	// Its overrides have all times of their own: so were files written before the times of
	// a tier held for them.
	if err := l.record(&r, nil); err != nil {
		return tenant.Account{}, err
	}
	return r.Account()
}

// lineOfAccount is the inverse of accountOf.
func lineOfAccount(a *tenant.Account) Line {
	r := sqltenant.Record{Subject: a.Subject, Tiers: a.Tiers, TopUps: a.TopUps}
	for i := range a.Overrides {
		o := &a.Overrides[i]
		kept := sqltenant.Override{Descriptor: o.Descriptor, Term: o.Term}
		var list []sqltenant.OverrideLimit
		for _, l := range o.Quota.Limits {
			one := sqltenant.OverrideLimit{RequestsPerUnit: l.Quota, Unit: l.Period, Algorithm: l.Algorithm, Burst: l.Burst}
			if l.Algorithm == limit.LeakyBucket || l.Algorithm == limit.LeakyQueue {
				one.Burst = 0 // it is not a setting of theirs
			}
			list = append(list, one)
		}
		kept.SetLimits(list)
		r.Overrides = append(r.Overrides, kept)
	}
	return LineOf(&r)
}
