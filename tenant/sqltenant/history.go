package sqltenant

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Point is a place in the history of changes: the version of the last one, and the digest
// of all up to it, which no other history has. The zero value is that of a new database.
type Point struct {
	Version int64
	Digest  string
}

// ErrHistory is wrapped by what WatcherOptions.OnError is told when the database does not
// have the changes that were read of it: it was restored to an older state, or another
// server without the last of them has taken over. All is read again.
var ErrHistory = errors.New("the history of the database has changed: it was restored to an older state, or a server without its last changes has taken over; all is read again")

// head is what a look at a database begins with.
type head struct {
	Point
	// urgent stands for the switches and tiers, which are read before all else: how many
	// there are, and the last version of any.
	urgent [2]int64
}

// head returns what there is now.
func (d *DB) head(ctx context.Context) (h head, err error) {
	var last whole
	err = d.read.QueryRowContext(ctx, `SELECT s.version, s.digest, (SELECT count(*) FROM documents WHERE kind IN ('switch', 'tiers')),
		(SELECT coalesce(max(version), 0) FROM documents WHERE kind IN ('switch', 'tiers')) FROM tenant_head s WHERE s.id = 1`).
		Scan(&h.Version, &h.Digest, &h.urgent[0], &last)
	if h.urgent[1] = int64(last); err != nil {
		return head{}, d.failed("read the version of", err)
	}
	return h, nil
}

// leads reports whether what was read up to from may be a part of the history of h. Where
// h is later, page tells.
func (h *head) leads(from Point) bool {
	return h.Version > from.Version || h.Point == from
}

// page is some changes in order: of which accounts, and whether rules have changed.
type page struct {
	subjects []subject
	rules    bool
	// end is the last one of them, full that there may be more.
	end  Point
	full bool
}

// page returns the first changes after a point, and ErrHistory where the history is not
// the one of that point.
func (d *DB) page(ctx context.Context, from Point) (p page, err error) {
	entries, err := step(ctx, func(ctx context.Context) ([]Entry, error) { return d.headings(ctx, from.Version) })
	if err != nil {
		return p, err
	}
	p.end = from
	if from.Version > 0 {
		// The change that was read last must still be there.
		if len(entries) == 0 || entries[0].Version != from.Version || entries[0].Hash != from.Digest {
			return p, fmt.Errorf("%w (version %d was read)", ErrHistory, from.Version)
		}
		entries = entries[1:]
	}
	seen := make(map[subject]bool, len(entries))
	for i := range entries {
		e := &entries[i]
		p.end = Point{e.Version, e.Hash}
		switch {
		case e.Kind == RulesDocument || e.Kind == RuleRowEntry:
			p.rules = true
		case e.Kind == AccountEntry && !seen[e.Subject]:
			seen[e.Subject] = true
			p.subjects = append(p.subjects, e.Subject)
		}
	}
	p.full = len(entries) >= MaxPage
	return p, nil
}

// Holds reports whether a point is a part of the history.
func (d *DB) Holds(ctx context.Context, at Point) (bool, error) {
	if at == (Point{}) {
		return true, nil
	}
	var hash string
	err := d.read.QueryRowContext(ctx, `SELECT hash FROM account_changes WHERE version = $1`, at.Version).Scan(&hash)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, d.failed("read the history of", err)
	}
	return hash == at.Digest, nil
}

// sums are how many accounts there are, and tiers, overrides and top-ups of all of them.
type sums struct{ accounts, parts int64 }

// counted is what there is in a database at a point.
type counted struct {
	at Point
	sums
}

// count counts all rows of accounts.
func (d *DB) count(ctx context.Context) (c counted, err error) {
	err = d.read.QueryRowContext(ctx, `SELECT s.version, s.digest, (SELECT count(*) FROM accounts),
		(SELECT count(*) FROM account_tiers) + (SELECT count(*) FROM quota_overrides) + (SELECT count(*) FROM account_top_ups)
		FROM tenant_head s WHERE s.id = 1`).Scan(&c.at.Version, &c.at.Digest, &c.accounts, &c.parts)
	if err != nil {
		return counted{}, d.failed("count", err)
	}
	return c, nil
}
