package sqltenant

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
)

// MaxPage bounds the accounts of one page.
const MaxPage = 1000

// querier is a connection, a pool or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// view lets read see the database as it is at one instant, which is none before what was
// read of a replica.
func (d *DB) view(ctx context.Context, read func(querier) error) error {
	tx, err := d.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	err = d.reached(ctx, tx)
	if err == nil {
		err = read(tx)
	}
	if err != nil {
		_ = tx.Rollback() // nothing was written
		return err
	}
	return tx.Commit()
}

// records returns the accounts of a selection, as they are at one instant.
func (d *DB) records(ctx context.Context, s selection) (records []Record, err error) {
	err = d.view(ctx, func(q querier) (err error) {
		records, err = query(ctx, q, s)
		return err
	})
	return records, err
}

// Get returns the account of a subject, as it is at one instant; one that is not
// there has Version 0 and nothing but its Subject.
func (d *DB) Get(ctx context.Context, subject tenant.Subject) (Record, error) {
	if storable(subject) != nil {
		return Record{Subject: subject}, nil
	}
	records, err := d.records(ctx, selectionOf([]tenant.Subject{subject}, d.postgres()))
	if err != nil {
		return Record{Subject: subject}, d.failed("read", err)
	}
	if len(records) == 0 {
		return Record{Subject: subject}, nil
	}
	return records[0], nil
}

// List returns up to n accounts, at most MaxPage, whose subjects come after one, in
// the order of subjects; the zero subject is before all.
func (d *DB) List(ctx context.Context, after tenant.Subject, n int) ([]Record, error) {
	return d.Find(ctx, ListOptions{After: after, N: n})
}

// ListOptions says which accounts Find returns. The zero value asks for the first
// one of all.
type ListOptions struct {
	// After is the subject after which to begin; the zero one is before all.
	After tenant.Subject
	// N is how many at most, up to MaxPage.
	N int
	// Prefix keeps to subjects with its Key whose Value begins with its Value, byte
	// by byte; without a Key it keeps all.
	Prefix tenant.Subject
	// Tier keeps to accounts which have the tier of that name in force at At; "" keeps
	// all.
	Tier string
	// OtherTiers leaves out accounts which have one of these tiers in force at At.
	// Those of the fallback tier are found so: all that have none of the other tiers,
	// which are those without a tier in force and with one of an unknown name, too.
	OtherTiers []string
	At         time.Time
}

// Find returns accounts in the order of subjects. It reads no more of the database
// than the page and what OtherTiers leave out.
func (d *DB) Find(ctx context.Context, o ListOptions) ([]Record, error) {
	o.N = min(o.N, MaxPage)
	records, err := d.records(ctx, o.selection(d.postgres()))
	if err != nil {
		return nil, d.failed("list", err)
	}
	slices.SortFunc(records, func(x, y Record) int {
		return cmp.Or(strings.Compare(x.Subject.Key, y.Subject.Key), strings.Compare(x.Subject.Value, y.Subject.Value))
	})
	return records, nil
}

// selection turns o into SQL. With a tier the index by tier leads; its order is that
// of subjects, too. What is in force is asked row by row: PostgreSQL would make a join
// of a condition that it can take apart, and read all before the first row.
func (o *ListOptions) selection(postgres bool) selection {
	s := selection{whole: o.Tier == "" && len(o.OtherTiers) == 0, numbered: postgres}
	if o.Tier == "" {
		s.text = ` WHERE ` + o.page(&s, "a")
		return s
	}
	s.text = ` JOIN (SELECT t.subject_key, t.subject FROM account_tiers t WHERE t.tier = ` + s.arg(o.Tier) +
		` AND t.effective_at = ` + s.inForce("effective_at", "t", o.At) + ` AND ` + o.page(&s, "t") +
		`) s ON s.subject_key = a.subject_key AND s.subject = a.subject`
	return s
}

// page is the condition on the table that leads, its order and its bound.
func (o *ListOptions) page(s *selection, lead string) string {
	key, value := lead+`.subject_key`, lead+`.subject`
	var b strings.Builder
	b.WriteString(`(` + key + `, ` + value + `) > (` + s.arg(o.After.Key) + `, ` + s.arg(o.After.Value) + `)`)
	if o.Prefix.Key != "" {
		b.WriteString(` AND ` + key + ` = ` + s.arg(o.Prefix.Key) + ` AND ` + value + ` >= ` + s.arg(o.Prefix.Value))
		if end := pastPrefix(o.Prefix.Value); end != "" {
			b.WriteString(` AND ` + value + ` < ` + s.arg(end))
		}
	}
	if len(o.OtherTiers) > 0 {
		b.WriteString(` AND coalesce(` + s.inForce("tier", lead, o.At) + `, '') NOT IN (`)
		for i, tier := range o.OtherTiers {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(s.arg(tier))
		}
		b.WriteByte(')')
	}
	b.WriteString(` ORDER BY ` + key + `, ` + value + ` LIMIT ` + s.arg(max(o.N, 1)))
	return b.String()
}

// pastPrefix returns the first text that comes after all that begin with prefix, ""
// when there is none.
func pastPrefix(prefix string) string {
	runes := []rune(prefix)
	for len(runes) > 0 {
		last := &runes[len(runes)-1]
		switch *last {
		case 0x10FFFF: // no text is after it: the end is that of the letters before it
			runes = runes[:len(runes)-1]
			continue
		case 0xD7FF: // what follows is no letter
			*last = 0xE000
		default:
			*last++
		}
		return string(runes)
	}
	return ""
}

// selection is which accounts to read: what follows FROM accounts a, with its
// parameters.
type selection struct {
	text string
	args []any
	// whole says that these are all accounts between the first and the last of them.
	whole bool
	// numbered is as values takes it.
	numbered bool
}

// arg adds a parameter and returns its name.
func (s *selection) arg(value any) string {
	s.args = append(s.args, bind(s.numbered, []any{value})...)
	return "$" + strconv.Itoa(len(s.args))
}

// inForce is a column of that row of account_tiers which is in force for the subject
// of a row: of those in force the one that began last.
func (s *selection) inForce(column, row string, at time.Time) string {
	return `(SELECT i.` + column + ` FROM account_tiers i WHERE i.subject_key = ` + row + `.subject_key AND i.subject = ` + row + `.subject
		AND i.effective_at <= ` + s.arg(moment(at)) + ` AND (i.expires_at IS NULL OR i.expires_at > ` + s.arg(moment(at)) + `)
		ORDER BY i.effective_at DESC LIMIT 1)`
}

// selectionOf selects accounts by their subjects.
func selectionOf(subjects []tenant.Subject, numbered bool) selection {
	text, args := subjectValues(subjects, numbered)
	return selection{
		text: `JOIN (VALUES ` + text + `) s ON s.column1 = a.subject_key AND s.column2 = a.subject`,
		args: args, numbered: numbered,
	}
}

// subjectValues returns subjects as rows of values.
func subjectValues(subjects []tenant.Subject, numbered bool) (text string, args []any) {
	rows := make([][]any, len(subjects))
	for i, s := range subjects {
		rows[i] = []any{s.Key, s.Value}
	}
	return values(rows, numbered)
}

// query returns the accounts of a selection with all that belongs to them. The
// selection bounds how many there are; q sees one instant.
func query(ctx context.Context, q querier, s selection) ([]Record, error) {
	var records []Record
	err := eachRow(ctx, q, accountsOf(s), s.args, func(rows *sql.Rows) error {
		var r Record
		var version, updated whole
		err := rows.Scan(&r.Subject.Key, &r.Subject.Value, &r.Last4, &version, &updated)
		r.Version, r.UpdatedAt = int64(version), updated.instant()
		records = append(records, r)
		return err
	})
	if err != nil || len(records) == 0 {
		return nil, err
	}
	return records, addParts(ctx, q, records, s)
}

// accountsOf is the statement that reads the accounts of a selection.
func accountsOf(s selection) string {
	return `SELECT a.subject_key, a.subject, a.last4, a.version, a.updated_at FROM accounts a ` + s.text
}

// parts are what belongs to accounts, each with the statement that reads it and what
// takes a row of that.
var parts = [...]struct {
	statement string
	scan      func(*sql.Rows, map[tenant.Subject]*Record) error
}{
	{`SELECT t.subject_key, t.subject, t.tier, t.effective_at, t.expires_at FROM account_tiers t `, scanTier},
	{`SELECT t.subject_key, t.subject, t.id, t.descriptor, t.requests_per_unit, t.unit, t.algorithm, t.burst, t.more_limits,
		t.effective_at, t.expires_at, t.created_at, t.updated_at, t.created_by FROM quota_overrides t `, scanOverride},
	{`SELECT t.subject_key, t.subject, t.id, t.descriptor, t.hits, t.effective_at, t.expires_at FROM account_top_ups t `, scanTopUp},
}

// partsOf selects the rows t that belong to records of a selection: those in the range
// of their subjects when the records are all that there are in it, else those of each
// subject.
func partsOf(records []Record, from selection) (s selection) {
	if first, last := records[0].Subject, records[len(records)-1].Subject; from.whole {
		s.text = `WHERE (t.subject_key, t.subject) >= ($1, $2) AND (t.subject_key, t.subject) <= ($3, $4)`
		s.args = []any{first.Key, first.Value, last.Key, last.Value}
		return s
	}
	subjects := make([]tenant.Subject, len(records))
	for i := range records {
		subjects[i] = records[i].Subject
	}
	text, args := subjectValues(subjects, from.numbered)
	return selection{text: `JOIN (VALUES ` + text + `) s ON s.column1 = t.subject_key AND s.column2 = t.subject`, args: args}
}

// addParts reads what belongs to the records of a selection.
func addParts(ctx context.Context, q querier, records []Record, from selection) error {
	of := make(map[tenant.Subject]*Record, len(records))
	for i := range records {
		of[records[i].Subject] = &records[i]
	}
	s := partsOf(records, from)
	for i := range parts {
		if err := eachRow(ctx, q, parts[i].statement+s.text, s.args, func(rows *sql.Rows) error { return parts[i].scan(rows, of) }); err != nil {
			return err
		}
	}
	for i := range records {
		records[i].sort()
	}
	return nil
}

// errEnough ends eachRow before the last row, and is no error of it.
var errEnough = errors.New("enough")

// eachRow runs a statement and hands over its rows.
func eachRow(ctx context.Context, q querier, statement string, args []any, scan func(*sql.Rows) error) error {
	rows, err := q.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err == errEnough {
			return nil
		} else if err != nil {
			return err
		}
	}
	return rows.Err()
}

// record scans a row, which begins with the subject of a record, and returns that; nil where there
// is none of it.
func record(rows *sql.Rows, of map[tenant.Subject]*Record, into ...any) (*Record, error) {
	var s tenant.Subject
	err := rows.Scan(append([]any{&s.Key, &s.Value}, into...)...)
	return of[s], err
}

// part adds what was read of a row of a part of r, or why that cannot be.
func part[T any](r *Record, list *[]T, one T, err error) {
	if err != nil {
		r.Invalid = append(r.Invalid, err)
	} else {
		*list = append(*list, one)
	}
}

func scanTier(rows *sql.Rows, of map[tenant.Subject]*Record) error {
	var t tenant.Assignment
	var from whole
	var until maybe
	r, err := record(rows, of, &t.Tier, &from, &until)
	if err != nil || r == nil {
		return err
	}
	t.Term, err = term("account_tiers", from, until)
	part(r, &r.Tiers, t, err)
	return nil
}

func scanOverride(rows *sql.Rows, of map[tenant.Subject]*Record) error {
	var o Override
	var quota, until maybe
	var unit, algorithm, more string
	var burst, from, created, updated whole
	r, err := record(rows, of, &o.ID, &o.Descriptor, &quota, &unit, &algorithm, &burst, &more,
		&from, &until, &created, &updated, &o.CreatedBy)
	if err != nil || r == nil {
		return err
	}
	// A word that is none, which Headgate has not written, makes this one override
	// invalid and no error of the query: the other accounts must be read.
	var unitErr, algorithmErr error
	o.Unit, unitErr = tenant.ParseUnit(unit)
	o.Algorithm, algorithmErr = limit.ParseAlgorithm(algorithm)
	if unitErr != nil || algorithmErr != nil {
		o.Unit = 0
	}
	o.Unlimited, o.RequestsPerUnit, o.Burst = !quota.valid, int64(quota.whole), int64(burst)
	o.CreatedAt, o.UpdatedAt = created.instant(), updated.instant()
	if o.Term, err = term("quota_overrides", from, until); err == nil && quota.valid {
		if o.More, err = parseMore(more); err != nil {
			err = fmt.Errorf("quota_overrides.more_limits: %w", err)
		}
	}
	part(r, &r.Overrides, o, err)
	return nil
}

func scanTopUp(rows *sql.Rows, of map[tenant.Subject]*Record) error {
	var t tenant.TopUp
	var hits, from, until whole
	r, err := record(rows, of, &t.ID, &t.Descriptor, &hits, &from, &until)
	if err != nil || r == nil {
		return err
	}
	t.Hits = int64(hits)
	t.Term, err = term("account_top_ups", from, maybe{until, true})
	part(r, &r.TopUps, t, err)
	return nil
}

// sort puts the parts of r in the order of their descriptors and begins.
func (r *Record) sort() {
	slices.SortFunc(r.Tiers, func(x, y tenant.Assignment) int { return x.Term.From.Compare(y.Term.From) })
	slices.SortFunc(r.Overrides, func(x, y Override) int {
		return cmp.Or(strings.Compare(x.Descriptor, y.Descriptor), x.Term.From.Compare(y.Term.From))
	})
	slices.SortFunc(r.TopUps, func(x, y tenant.TopUp) int {
		return cmp.Or(strings.Compare(x.Descriptor, y.Descriptor), x.Term.From.Compare(y.Term.From), strings.Compare(x.ID, y.ID))
	})
}

// term returns the term of a row of a table. The error names the column that no text of
// RFC 3339 can show: it must not hide the other rows.
func term(table string, from whole, until maybe) (t tenant.Term, err error) {
	if from != 0 && from.instant().IsZero() {
		return t, fmt.Errorf("%s.effective_at is no instant from 1970 to the end of 9999", table)
	}
	t.From = from.instant()
	if !until.valid {
		return t, nil
	}
	if until.instant().IsZero() {
		return t, fmt.Errorf("%s.expires_at is no instant from 1970 to the end of 9999", table)
	}
	t.Until = until.instant()
	return t, nil
}

// Version returns the version of the last change.
func (d *DB) Version(ctx context.Context) (int64, error) {
	version, err := lastVersion(ctx, d.read)
	if err != nil {
		return 0, d.failed("read the version of", err)
	}
	return version, nil
}

// lastVersion is the version of the last change that q sees.
func lastVersion(ctx context.Context, q querier) (version int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT version FROM tenant_head WHERE id = 1`).Scan(&version)
	return version, err
}
