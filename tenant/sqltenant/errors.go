package sqltenant

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrInvalid is wrapped by the error of a change that cannot be, and of what
	// somebody else has written and cannot be.
	ErrInvalid = errors.New("invalid")
	// ErrConflict says that the account or the document is not in the version that a
	// change was made for.
	ErrConflict = errors.New("it has changed since")
)

// Trouble says in some words what an error of a database comes of, after "the database":
// that it does not answer, or what it refuses, and what to do about that in brackets.
func Trouble(err error) string {
	what, hint := trouble(err)
	if hint != "" {
		what += " (hint: " + hint + ")"
	}
	return what
}

// Hint says what to do about an error of a database, "" where nothing is known.
func Hint(err error) string {
	_, hint := trouble(err)
	return hint
}

func trouble(err error) (what, hint string) {
	if errors.Is(err, ErrBehind) {
		return "is behind what was read before", "this replica replays late, or is another one"
	}
	if errors.Is(err, errTables) {
		return "has not all tables yet", "they come from its primary"
	}
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case refusal.Code == "42501":
			return "refuses permission", "grant this user SELECT, INSERT, UPDATE and DELETE on its tables, and to make them CREATE on the schema"
		case refusal.Code == "25006":
			return "is read-only", "this may be a standby; --tenants is the address of the primary, --tenants-replica that of a standby; or default_transaction_read_only is on"
		case strings.HasPrefix(refusal.Code, "28"):
			return "refuses the login", "check user and password"
		case refusal.Code == "53100":
			return "has no room left on its disk", "free its disk or its tablespace, or give it more; what was read last stays in force"
		case refusal.Code == "53300":
			return "has no connection left for this user", "raise its max_connections, or the CONNECTION LIMIT of the user or the database, or look for clients that keep many"
		case refusal.Code == "42P05" || refusal.Code == "26000": // a prepared statement is there already, or is not
			return "is behind a pooler that gives each transaction another session", "have the pooler keep sessions (PgBouncer: pool_mode=session), or give the address of PostgreSQL itself"
		case refusal.Code == "57014":
			return "ends statements that take long", "raise the statement_timeout of this user, or look for who cancels its statements"
		case refusal.Code == "40001":
			return "ends reads that are in the way of its replay", "on the replica, a longer max_standby_streaming_delay or hot_standby_feedback=on"
		case refusal.Code == "3D000":
			return "is not there", "create it"
		case !strings.HasPrefix(refusal.Code, "57") && !strings.HasPrefix(refusal.Code, "53") && !strings.HasPrefix(refusal.Code, "08"):
			return "answers with an error", ""
		}
		return "does not answer", ""
	}
	if file, ok := errors.AsType[*sqlite.Error](err); ok {
		switch file.Code() & 0xff {
		case sqlite3.SQLITE_READONLY:
			return "is read-only", "the file and its directory must be writable"
		case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
			return "cannot be opened", "its directory must be there, and writable"
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
			return "is damaged, or no database", "is this the right file?"
		}
	}
	return "does not answer", ""
}

// isOther reports whether the file is none of SQLite.
func isOther(err error) bool {
	var file *sqlite.Error
	return errors.As(err, &file) && file.Code()&0xff == sqlite3.SQLITE_NOTADB
}
