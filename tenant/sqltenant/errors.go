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
// that it does not answer, or what it refuses.
func Trouble(err error) string {
	if errors.Is(err, ErrBehind) {
		return "is behind what was read before (hint: this replica replays late, or is another one)"
	}
	if errors.Is(err, errTables) {
		return "has not all tables yet (hint: they come from its primary)"
	}
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case refusal.Code == "42501":
			return "refuses permission (hint: grant this user SELECT, INSERT, UPDATE and DELETE on its tables, and to make them CREATE on the schema)"
		case refusal.Code == "25006":
			return "is read-only (hint: this may be a standby; --tenants is the address of the primary, --tenants-replica that of a standby)"
		case strings.HasPrefix(refusal.Code, "28"):
			return "refuses the login (hint: check user and password)"
		case refusal.Code == "40001":
			return "ends reads that are in the way of its replay (hint: on the replica, a longer max_standby_streaming_delay or hot_standby_feedback=on)"
		case refusal.Code == "3D000":
			return "is not there (hint: create it)"
		case !strings.HasPrefix(refusal.Code, "57") && !strings.HasPrefix(refusal.Code, "53") && !strings.HasPrefix(refusal.Code, "08"):
			return "answers with an error"
		}
		return "does not answer"
	}
	if file, ok := errors.AsType[*sqlite.Error](err); ok {
		switch file.Code() & 0xff {
		case sqlite3.SQLITE_READONLY:
			return "is read-only (hint: the file and its directory must be writable)"
		case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
			return "cannot be opened (hint: its directory must be there, and writable)"
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
			return "is damaged, or no database (hint: is this the right file?)"
		}
	}
	return "does not answer"
}

// isOther reports whether the file is none of SQLite.
func isOther(err error) bool {
	var file *sqlite.Error
	return errors.As(err, &file) && file.Code()&0xff == sqlite3.SQLITE_NOTADB
}
