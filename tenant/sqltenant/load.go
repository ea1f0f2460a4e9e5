package sqltenant

import (
	"context"
	"iter"

	"github.com/headgate/headgate/tenant"
)

// loadPage is how many accounts are read at once where all are.
const loadPage = 10_000

// loaded is all accounts as they were at a point.
type loaded struct {
	snapshot *tenant.Snapshot
	at       Point
	left     leftovers
	err      error
	// pages are the changes since the accounts were read, to be told.
	pages []Page
}

// load reads all accounts, and what has changed meanwhile. It is no part of the look for
// changes, which goes on: with millions of accounts it takes minutes.
func (w *Watcher) load(ctx context.Context) *loaded {
	defer w.reading.Store(-1)
	w.reading.Store(0)
	h, err := step(ctx, w.db.head)
	l := &loaded{at: h.Point, err: err}
	if err != nil {
		return l
	}
	build := w.options.Build
	if build == nil {
		build = w.inMemory
	}
	l.snapshot, l.err = build(l.at, func(yield func(tenant.Account, error) bool) {
		after := subject{}
		for {
			records, err := stepWithin(ctx, loadTimeout, func(ctx context.Context) ([]Record, error) {
				return w.db.records(ctx, (&ListOptions{After: after, N: loadPage}).selection(w.db.postgres()))
			})
			if err != nil {
				yield(tenant.Account{}, w.db.failed("list", err))
				return
			}
			for i := range records {
				a, out := w.usable(&records[i])
				l.left.note(a.Subject, out)
				if !yield(a, nil) {
					return
				}
			}
			w.reading.Add(int64(len(records)))
			if len(records) < loadPage {
				return
			}
			after = records[len(records)-1].Subject
		}
	})
	if l.err == nil {
		l.err = w.catchUp(ctx, l)
	}
	return l
}

// inMemory is the Build of options that have none.
func (w *Watcher) inMemory(_ Point, accounts iter.Seq2[tenant.Account, error]) (s *tenant.Snapshot, err error) {
	s = tenant.NewSnapshot(w.tiers, func(yield func(tenant.Account) bool) {
		for a, failed := range accounts {
			if err = failed; err != nil || !yield(a) {
				return
			}
		}
	})
	return s, err
}

// compact makes a snapshot that has fewer changes beside its base; nil where there is no
// need to.
func (w *Watcher) compact(ctx context.Context, v *view, left leftovers) *loaded {
	s, err := w.options.Compact(v.at, v.snapshot)
	if s == nil && err == nil {
		return nil
	}
	l := &loaded{snapshot: s, at: v.at, left: left, err: err}
	if err == nil {
		l.err = w.catchUp(ctx, l)
	}
	return l
}

// catchUp adds what has changed since l was read.
func (w *Watcher) catchUp(ctx context.Context, l *loaded) error {
	for {
		p, err := w.db.page(ctx, l.at)
		if err != nil {
			return err
		}
		accounts, err := w.accounts(ctx, p.subjects, &l.left)
		if err != nil {
			return err
		}
		if w.options.OnPage != nil {
			l.pages = append(l.pages, Page{From: l.at, To: p.end, Accounts: accounts})
		}
		l.snapshot, l.at = l.snapshot.With(accounts...), p.end
		if !p.full {
			return nil
		}
	}
}

// accounts reads the accounts of subjects, and notes in left what was left out of each. Those
// that are not there have nothing but their subject.
func (w *Watcher) accounts(ctx context.Context, subjects []subject, left *leftovers) ([]tenant.Account, error) {
	if len(subjects) == 0 {
		return nil, nil
	}
	records, err := step(ctx, func(ctx context.Context) ([]Record, error) {
		return w.db.records(ctx, selectionOf(subjects, w.db.postgres()))
	})
	if err != nil {
		return nil, w.db.failed("read", err)
	}
	at := make(map[subject]int, len(subjects))
	accounts, outs := make([]tenant.Account, len(subjects)), make([]leftOut, len(subjects))
	for i, s := range subjects {
		accounts[i].Subject, at[s] = s, i
	}
	for i := range records {
		if j, ok := at[records[i].Subject]; ok {
			accounts[j], outs[j] = w.usable(&records[i])
		}
	}
	for i, s := range subjects {
		left.note(s, outs[i])
	}
	return accounts, nil
}
