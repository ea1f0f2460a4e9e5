package lease

import (
	"context"

	"github.com/headgate/headgate/store"
)

// askLocal asks Options.Local for the takes of u that are its, and reports
// whether u may pass as far as it is concerned. In a group it charges the hits;
// what is never denied follows when the group has passed.
func (s *Store) askLocal(ctx context.Context, c *call, u unit) bool {
	group := u.to-u.from > 1
	takes, at := make([]store.Take, 0, u.to-u.from), make([]int, 0, u.to-u.from)
	for i := u.from; i < u.to; i++ {
		if c.steps[i].outcome != elsewhere {
			continue
		}
		t := c.takes[i]
		if group {
			t.Group = 1
			if t.Op != store.Hit {
				t.Op, t.Hits = store.Hit, 0
			}
		}
		takes, at = append(takes, t), append(at, i)
	}
	results := make([]store.Result, len(takes))
	s.local.Take(ctx, takes, results)
	passes := true
	for j, i := range at {
		c.results[i] = results[j]
		if results[j].Err == nil && !results[j].Allowed && takes[j].Op == store.Hit && takes[j].Hits > 0 && !takes[j].Shadow {
			passes = false
		}
	}
	return passes || !group
}

// bookLocal ends the part of a group that Options.Local has: when the group
// passes, what is never denied is done, else the hits are given back. While a hit of
// it is undecided, for the error that is given, the former is not done.
func (s *Store) bookLocal(ctx context.Context, c *call, u unit, passes bool, undecided error) {
	if u.to-u.from == 1 {
		return
	}
	var answer [1]store.Result
	for i := u.from; i < u.to; i++ {
		if c.steps[i].outcome != elsewhere {
			continue
		}
		t, r := c.takes[i], &c.results[i]
		t.Group = 0
		switch {
		case passes && t.Op != store.Hit && undecided != nil:
			*r = store.Result{Err: undecided}
		case passes && t.Op != store.Hit:
			s.local.Take(ctx, []store.Take{t}, answer[:])
			*r = answer[0]
		case !passes && t.Op == store.Hit && t.Hits > 0 && r.Err == nil && r.Allowed:
			s.local.Take(ctx, []store.Take{t.Undo()}, answer[:])
			*r = answer[0]
			r.Allowed = true
		}
	}
}
