// Package sqltenant keeps accounts of tenants in PostgreSQL, or in SQLite where one
// node serves alone: one file, created when it is first opened. Both run the same
// statements.
//
// A write is one transaction: it takes the lock of the state row, so that writes
// follow each other, changes the rows of one account, appends a Change to the audit
// chain and raises the version. So every version is one change of one account, and
// whoever knows the version he has last seen can ask for what has changed since.
//
// A Watcher turns that into a tenant.Snapshot that is always at hand: it is told of
// changes (LISTEN and NOTIFY with PostgreSQL, within the process with SQLite), asks
// for the version every 5 s should a notice be lost (with SQLite every second, as
// other processes may write too), and every 30 s and after each failed read compares
// what it holds with the database as a whole. No request waits
// for the database, and when the database is away the last snapshot counts on.
//
// Times are whole microseconds since the Unix epoch, UTC. Nothing here sees an API
// key: subjects are named by a keyed hash of it and shown by its last four letters.
package sqltenant
