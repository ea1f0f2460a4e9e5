package sqltenant

import (
	"context"
	"errors"
	"time"
)

// Kind says what a document is about.
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

// DefaultName is the name of a document of which there is one.
const DefaultName = "default"

const (
	// MaxDocument bounds the text of a document, in bytes.
	MaxDocument = 1 << 20
	// MaxDocuments bounds the documents of one kind.
	MaxDocuments = 10_000
)

// Document is a text that every node follows: rules, tiers, a switch. The database
// does not look into it.
type Document struct {
	Kind Kind
	// Name is printable text of 1 to 600 bytes, one of its kind.
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
	// Actor, Version and At are as in Change.
	Actor   string
	Version int64
	At      time.Time
}

var errUnderWay = errors.New("not built yet")

// PutDocument makes a change and returns the document as it is then, as Update does
// for accounts: in the audit chain, whole or not at all, ErrConflict and ErrInvalid
// likewise.
func (d *DB) PutDocument(ctx context.Context, c DocumentChange) (Document, error) {
	return Document{}, errUnderWay
}

// Document returns one document; one that is not there has Version 0.
func (d *DB) Document(ctx context.Context, kind Kind, name string) (Document, error) {
	return Document{}, errUnderWay
}

// Documents returns all documents of a kind, in the order of their names.
func (d *DB) Documents(ctx context.Context, kind Kind) ([]Document, error) {
	return nil, errUnderWay
}

// RuleRow is a row of the table rate_limit_rules, in which operators may also write
// by other means than Headgate. Nothing of it is checked here but by PutRuleRow.
type RuleRow struct {
	ID int64
	// Scope says what the rule counts by: user, ip or apikey.
	Scope string
	// Route and Method are what it is for; nil means all.
	Route, Method *string
	// LimitCount hits pass in WindowMS milliseconds.
	LimitCount, WindowMS int64
	// WeightField names where the cost of a request comes from; "" means 1.
	WeightField string
	// Algorithm, FailureMode and Burst are as in rules; "" and 0 mean the default.
	Algorithm, FailureMode string
	Burst                  int64
	Active                 bool
	CreatedAt, UpdatedAt   time.Time
}

// MaxRuleRows bounds the rows that are read.
const MaxRuleRows = 10_000

// RuleRowChange says what is to be done with a row of the table of rules.
type RuleRowChange struct {
	// Row is what it shall be. Its ID is 0 for a new one.
	Row RuleRow
	// Delete takes the row with that ID out.
	Delete bool
	Actor  string
	At     time.Time
}

// PutRuleRow makes a change and returns the row as it is then, with its ID, and the
// version of the change; ErrInvalid where there is no row with that ID. The audit
// chain has it under the kind "rule_row".
func (d *DB) PutRuleRow(ctx context.Context, c RuleRowChange) (RuleRow, int64, error) {
	return RuleRow{}, 0, errUnderWay
}

// RuleRows returns all rows, those that are not active included, in the order of
// their IDs.
func (d *DB) RuleRows(ctx context.Context) ([]RuleRow, error) { return nil, errUnderWay }

// Settings is what a database holds beside accounts, as it was at one version or
// after it.
type Settings struct {
	Documents []Document
	RuleRows  []RuleRow
	Version   int64
}
