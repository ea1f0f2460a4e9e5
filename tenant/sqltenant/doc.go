// Package sqltenant keeps accounts of tenants, and the documents and rules that every
// node follows, in PostgreSQL, or in SQLite where one node serves alone: one file,
// created when it is first opened. Both run the same statements.
//
// A write is one transaction: it takes the lock of the state row, so that writes
// follow each other, changes the rows of accounts, a document or a row of rules,
// appends an Entry for each change to the audit chain and raises the version by one
// for it. So every version is one change of one thing, and whoever knows the version
// he has last seen can ask for what has changed since. Reads see one instant.
//
// Rows of rules (table rate_limit_rules) may also be written by hand. That raises no
// version and leaves no entry; with PostgreSQL a trigger tells of it.
//
// A Watcher turns accounts into a tenant.Snapshot that is always at hand, and hands
// over documents and rows of rules as Settings: it is told of changes (LISTEN and
// NOTIFY with PostgreSQL, within the process with SQLite), asks for the version every
// 5 s should a notice be lost (with SQLite every second, as other processes may write
// too), and every 30 s and after each failed read compares what it holds with the
// database as a whole. No request waits for the database, and when the database is
// away the last snapshot counts on. What somebody else has written and cannot be is
// left out and told by itself.
//
// Times are whole microseconds since the Unix epoch, UTC. Nothing here sees an API
// key: subjects are named by a keyed hash of it and shown by its last four letters.
package sqltenant
