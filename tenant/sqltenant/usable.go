package sqltenant

import (
	"fmt"
	"maps"

	"github.com/headgate/headgate/tenant"
)

type subject = tenant.Subject

// leftOut is what a snapshot has not of an account that the tables have.
type leftOut struct {
	// absent says that the snapshot does not have the account at all.
	absent bool
	// parts are its tiers, overrides and top-ups that the snapshot does not have.
	parts int
	// invalid says that something of it cannot be; else it is only empty.
	invalid bool
}

// leftovers are what snapshots do not have, of which accounts, and the sums of that.
type leftovers struct {
	of map[subject]leftOut
	// sums are what a count finds beyond the snapshot; accounts and parts those that are
	// invalid: whole accounts, and parts of others.
	sums            sums
	accounts, parts int64
}

// note makes out what was left out of an account.
func (l *leftovers) note(s subject, out leftOut) {
	before, known := l.of[s]
	if !known && out == (leftOut{}) {
		return
	}
	l.add(before, -1)
	l.add(out, 1)
	if out == (leftOut{}) {
		delete(l.of, s)
		return
	}
	if l.of == nil {
		l.of = map[subject]leftOut{}
	}
	l.of[s] = out
}

// clone returns leftovers that no note to l changes.
func (l *leftovers) clone() leftovers {
	copied := *l
	copied.of = maps.Clone(l.of)
	return copied
}

func (l *leftovers) add(out leftOut, times int64) {
	l.sums.parts += times * int64(out.parts)
	if out.absent {
		l.sums.accounts += times
	}
	switch {
	case out.invalid && out.absent:
		l.accounts += times
	case out.invalid:
		l.parts += times * int64(out.parts)
	}
}

// usable returns what can be used of a record, and what cannot. One bad part takes
// nothing else with it: a tenant keeps its tier though an override of it cannot be.
func (w *Watcher) usable(r *Record) (tenant.Account, leftOut) {
	bad := func(what string, err error) {
		w.tell(fmt.Errorf("%w: account %s:%s: %s is left out: %w", ErrInvalid, r.Subject.Key, r.Subject.Value, what, err))
	}
	for _, err := range r.Invalid {
		bad("a row", err)
	}
	total := r.parts()
	a, err := r.account()
	if err != nil {
		if a, err = r.salvage(bad); err != nil {
			bad("all of it", err)
			return tenant.Account{Subject: r.Subject}, leftOut{absent: true, parts: total, invalid: true}
		}
	}
	w.sharing.Lock()
	w.shared.Share(&a)
	w.sharing.Unlock()
	kept := len(a.Tiers) + len(a.Overrides) + len(a.TopUps)
	return a, leftOut{absent: kept == 0, parts: total - kept, invalid: kept < total}
}

// parts returns how many rows there are of r beside its own.
func (r *Record) parts() int { return len(r.Tiers) + len(r.Overrides) + len(r.TopUps) + len(r.Invalid) }

// salvage returns an account of those parts of r that can be by themselves, and tells of
// the others. The error says why there can be none.
func (r *Record) salvage(bad func(what string, err error)) (tenant.Account, error) {
	good := Record{Subject: r.Subject}
	if err := good.Validate(); err != nil {
		return tenant.Account{}, err
	}
	for i := range r.Tiers {
		if err := (&Record{Subject: r.Subject, Tiers: r.Tiers[i : i+1]}).Validate(); err != nil {
			bad("a row of account_tiers", err)
			continue
		}
		good.Tiers = append(good.Tiers, r.Tiers[i])
	}
	for i := range r.Overrides {
		if err := (&Record{Subject: r.Subject, Overrides: r.Overrides[i : i+1]}).Validate(); err != nil {
			bad("a row of quota_overrides for "+tenant.DescriptorText(r.Overrides[i].Descriptor), err)
			continue
		}
		good.Overrides = append(good.Overrides, r.Overrides[i])
	}
	for i := range r.TopUps {
		if err := (&Record{Subject: r.Subject, TopUps: r.TopUps[i : i+1]}).Validate(); err != nil {
			bad("a row of account_top_ups", err)
			continue
		}
		good.TopUps = append(good.TopUps, r.TopUps[i])
	}
	return good.account()
}
