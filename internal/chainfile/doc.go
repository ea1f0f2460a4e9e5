// Package chainfile exports the log of changes from its database, and verifies it without
// the database: it writes whole exports, and heads, which say what the log was at some time.
//
// Whoever may write the database may write all of the log anew, with hashes that fit. What
// shows that is a head that was kept elsewhere: it is of one history alone. A signed one
// may be kept anywhere, as long as the key is not where the database is.
//
// An export is a line of JSON for each change, oldest first, and one for its head; lines of
// heads alone are of the same form.
package chainfile
