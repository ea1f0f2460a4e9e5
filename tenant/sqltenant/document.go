package sqltenant

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/tenant"
)

// Kind says what a change is of: of an account, of a document of some kind, or of a
// row of rules.
type Kind string

// The kinds of documents.
const (
	// RulesDocument is the text of a file of rules; its name takes the place of the
	// name of the file.
	RulesDocument Kind = "rules"
	// TiersDocument is the text of the file of tiers; there is one, of the name
	// DefaultName.
	TiersDocument Kind = "tiers"
	// SwitchDocument is one switch as JSON; its name is its target.
	SwitchDocument Kind = "switch"
)

// The other kinds of changes.
const (
	// AccountEntry is of an account.
	AccountEntry Kind = "account"
	// RuleRowEntry is of a row of the table rate_limit_rules.
	RuleRowEntry Kind = "rule_row"
)

// documentKinds are the kinds of documents, in the order in which Settings has them.
var documentKinds = []Kind{RulesDocument, TiersDocument, SwitchDocument}

// DefaultName is the name of a document of which there is one.
const DefaultName = "default"

const (
	// MaxDocument bounds the text of a document, in bytes.
	MaxDocument = 1 << 20
	// MaxDocuments bounds the documents of one kind.
	MaxDocuments = 10_000
	// MaxDocumentsText bounds the texts of all documents of one kind together, in
	// bytes: every node keeps them at hand.
	MaxDocumentsText = 64 << 20
	// MaxReason bounds the reason of a change of a document, in bytes.
	MaxReason = 500
	// MaxDocumentHistory bounds the versions of a document that are looked up at once, and
	// documentHistoryReach the changes of all kinds that they are looked for in, the latest first.
	MaxDocumentHistory   = 50
	documentHistoryReach = 100_000
	// maxDocumentName bounds the name of a document, in bytes.
	maxDocumentName = 600
)

// Document is a text that every node follows: rules, tiers, a switch. The database
// does not look into it.
type Document struct {
	Kind Kind
	// Name is printable text of 1 to 600 bytes, one of its kind. Text is valid UTF-8
	// without NUL.
	Name, Text string
	// Version is that of its last change, 0 for one that is not there.
	Version   int64
	UpdatedAt time.Time
	UpdatedBy string
}

// DocumentChange says what is to be done with a document.
type DocumentChange struct {
	Kind Kind
	Name string
	// Text is what it shall be; "" takes it out.
	Text string
	// Reason is why, printable text of at most MaxReason bytes for the audit chain; "" says
	// nothing.
	Reason string
	// Actor, Version and At are as in Change.
	Actor   string
	Version int64
	At      time.Time
}

func (c *DocumentChange) validate() error {
	if err := cmp.Or(printable("actor", c.Actor, MaxActor), c.Kind.ofDocument(), printable("name of the document", c.Name, maxDocumentName)); err != nil {
		return err
	}
	if err := printable("reason", c.Reason, MaxReason); c.Reason != "" && err != nil {
		return err
	}
	if c.Kind == TiersDocument && c.Name != DefaultName {
		return fmt.Errorf("a document of tiers of the name %.64q; hint: there is one, %q", c.Name, DefaultName)
	}
	return checkText(c.Text)
}

func (k Kind) ofDocument() error {
	if slices.Contains(documentKinds, k) {
		return nil
	}
	return fmt.Errorf("kind %.64q is none of documents; hint: one of %v", string(k), documentKinds)
}

func checkText(text string) error {
	switch {
	case len(text) > MaxDocument:
		return fmt.Errorf("a document of %d bytes; hint: at most %d", len(text), MaxDocument)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return errors.New("the text of a document is UTF-8 without NUL")
	}
	return nil
}

// PutDocument makes a change and returns the document as it is then, as Update does
// for accounts: in the audit chain, whole or not at all, ErrConflict and ErrInvalid
// likewise.
func (d *DB) PutDocument(ctx context.Context, c DocumentChange) (Document, error) {
	if err := c.validate(); err != nil {
		return Document{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	var after Document
	err := d.change(ctx, func(w *writer) (err error) {
		after, err = d.putDocument(ctx, w, &c)
		return err
	})
	return after, err
}

func (d *DB) putDocument(ctx context.Context, w *writer, c *DocumentChange) (Document, error) {
	before, err := document(ctx, w.tx, c.Kind, c.Name)
	if err != nil {
		return Document{}, d.failed("change a document of", err)
	}
	if c.Version != Anyway && c.Version != before.Version {
		return Document{}, fmt.Errorf("%w: the document is in version %d, not %d", ErrConflict, before.Version, c.Version)
	}
	if c.Text == before.Text {
		return before, nil
	}
	if err := d.roomFor(ctx, w, c, &before); err != nil {
		return Document{}, err
	}
	after := Document{Kind: c.Kind, Name: c.Name, Text: c.Text, UpdatedAt: c.At.UTC().Truncate(time.Microsecond), UpdatedBy: c.Actor}
	after.Version = w.add(Entry{
		At: after.UpdatedAt, Actor: c.Actor, Kind: c.Kind, Subject: tenant.Subject{Value: c.Name},
		Before: before.state(""), After: after.state(c.Reason),
	})
	if after.Text == "" {
		_, err = w.tx.ExecContext(ctx, `DELETE FROM documents WHERE kind = $1 AND name = $2`, string(c.Kind), c.Name)
		after = Document{Kind: c.Kind, Name: c.Name}
	} else {
		_, err = w.tx.ExecContext(ctx, `INSERT INTO documents (kind, name, text, version, updated_at, updated_by) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (kind, name) DO UPDATE SET text = excluded.text, version = excluded.version, updated_at = excluded.updated_at, updated_by = excluded.updated_by`,
			bind(w.postgres, []any{string(c.Kind), c.Name, after.Text, after.Version, moment(after.UpdatedAt), after.UpdatedBy})...)
	}
	if err != nil {
		return Document{}, d.failed("change a document of", err)
	}
	return after, nil
}

// roomFor refuses what would be past the bounds of one kind.
func (d *DB) roomFor(ctx context.Context, w *writer, c *DocumentChange, before *Document) error {
	var count, size int64
	err := w.tx.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(octet_length(text)), 0) FROM documents WHERE kind = $1`, string(c.Kind)).
		Scan(&count, &size)
	if err != nil {
		return d.failed("count the documents of", err)
	}
	if before.Version == 0 {
		count++
	}
	if size += int64(len(c.Text) - len(before.Text)); c.Text != "" && (count > MaxDocuments || size > MaxDocumentsText) {
		return fmt.Errorf("%w: %d documents of the kind %s with %d bytes; hint: at most %d with %d; take some out",
			ErrInvalid, count, c.Kind, size, MaxDocuments, MaxDocumentsText)
	}
	return nil
}

// documentState is a document in the audit chain. It is part of what is hashed, so fields are only
// added, at the end and with omitempty.
type documentState struct {
	Text   string `json:"text,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// state returns the JSON of d for the audit chain, and why it was changed; "{}" for one that is
// not there, of which nobody says why.
func (d *Document) state(reason string) string {
	return jsonOf(documentState{d.Text, reason})
}

// DocumentVersion is what a document was made at one time.
type DocumentVersion struct {
	Version int64
	At      time.Time
	Actor   string
	// Reason is why, "" where nobody has said. Text is "" where the document was taken out.
	Reason, Text string
}

// DocumentHistory returns the latest n versions of a document, 50 at most, of those before a
// version unless that is 0; the latest first. They are in the audit chain: what is further back
// than its latest 100,000 changes before that is not found.
func (d *DB) DocumentHistory(ctx context.Context, kind Kind, name string, before int64, n int) ([]DocumentVersion, error) {
	if kind.ofDocument() != nil || printable("name", name, maxDocumentName) != nil {
		return nil, nil
	}
	var versions []DocumentVersion
	err := d.view(ctx, func(q querier) error {
		last, err := lastVersion(ctx, q)
		if err != nil {
			return err
		}
		if before <= 0 || before > last {
			before = last + 1
		}
		return eachRow(ctx, q, `SELECT version, at, actor, after_state FROM account_changes
			WHERE version < $1 AND version >= $2 AND kind = $3 AND subject_key = '' AND subject = $4 ORDER BY version DESC LIMIT $5`,
			[]any{before, max(before-documentHistoryReach, 0), string(kind), name, min(max(n, 1), MaxDocumentHistory)}, func(rows *sql.Rows) error {
				var v DocumentVersion
				var at whole
				var after string
				if err := rows.Scan(&v.Version, &at, &v.Actor, &after); err != nil {
					return err
				}
				var state documentState
				if err := json.Unmarshal([]byte(after), &state); err != nil {
					return fmt.Errorf("version %d: %w", v.Version, err)
				}
				v.At, v.Text, v.Reason = at.instant(), state.Text, state.Reason
				versions = append(versions, v)
				return nil
			})
	})
	if err != nil {
		return nil, d.failed("read the versions of a document of", err)
	}
	return versions, nil
}

// Document returns one document; one that is not there has Version 0.
func (d *DB) Document(ctx context.Context, kind Kind, name string) (Document, error) {
	if kind.ofDocument() != nil || printable("name", name, maxDocumentName) != nil {
		return Document{Kind: kind, Name: name}, nil
	}
	one, err := document(ctx, d.read, kind, name)
	if err != nil {
		return one, d.failed("read a document of", err)
	}
	return one, nil
}

const selectDocuments = `SELECT kind, name, text, version, updated_at, updated_by FROM documents `

func document(ctx context.Context, q querier, kind Kind, name string) (Document, error) {
	one, err := scanDocument(q.QueryRowContext(ctx, selectDocuments+`WHERE kind = $1 AND name = $2`, string(kind), name))
	if errors.Is(err, sql.ErrNoRows) {
		return Document{Kind: kind, Name: name}, nil
	}
	return one, err
}

// scanner is a row of an answer.
type scanner interface{ Scan(into ...any) error }

func scanDocument(row scanner) (d Document, err error) {
	var version, updated whole
	err = row.Scan(&d.Kind, &d.Name, &d.Text, &version, &updated, &d.UpdatedBy)
	// A document that is there has a version, whoever wrote it.
	d.Version, d.UpdatedAt = cmp.Or(int64(version), -1), updated.instant()
	return d, err
}

// Documents returns all documents of a kind, in the order of their names. Those that
// somebody wrote by other means, and PutDocument would have refused, are left out.
func (d *DB) Documents(ctx context.Context, kind Kind) ([]Document, error) {
	documents, _, err := documentsOf(ctx, d.read, kind)
	if err != nil {
		return nil, d.failed("list the documents of", err)
	}
	return documents, nil
}

// documentsOf returns the documents of a kind, and what is wrong with those that it
// left out.
func documentsOf(ctx context.Context, q querier, kind Kind) (documents []Document, bad []error, err error) {
	size := 0
	err = eachRow(ctx, q, selectDocuments+`WHERE kind = $1 ORDER BY name LIMIT $2`, []any{string(kind), MaxDocuments + 1}, func(rows *sql.Rows) error {
		d, err := scanDocument(rows)
		if err != nil {
			return err
		}
		if size += len(d.Text); len(documents) == MaxDocuments || size > MaxDocumentsText {
			bad = append(bad, fmt.Errorf("%w: documents of the kind %s from %.64q on are left out: more than %d, or more than %d bytes",
				ErrInvalid, kind, d.Name, MaxDocuments, MaxDocumentsText))
			return errEnough
		}
		if err := cmp.Or(printable("name", d.Name, maxDocumentName), checkText(d.Text)); err != nil {
			bad = append(bad, fmt.Errorf("%w: the document %.64q of the kind %s is left out: %w", ErrInvalid, d.Name, kind, err))
			return nil
		}
		documents = append(documents, d)
		return nil
	})
	return documents, bad, err
}
