// Package hostile attacks three real processes of headgate on one Redis and one PostgreSQL,
// at all their listeners: by bytes that are no requests, by requests that are not valid, by
// credentials that are good for something else, and by faults of all that they stand on.
// After each part the processes must live and answer, nobody may have gained a right, no
// count and no account may have changed, and no secret may stand in a log, a metric or an
// answer. docs/guarantees.md has the table of a run.
package hostile
