package coalesce

import (
	"hash/maphash"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Takes returns the cargo of takes, whose Fly decides a batch as store.Store's Take does;
// cost says what a take by a limit costs. Groups of different callers get different numbers.
// A caller with a dry run flies alone, because dry runs of one batch see each other.
func Takes(cost func(*limit.Limit) int) Cargo[store.Take, store.Result] {
	return &takes{cost: cost, seed: maphash.MakeSeed()}
}

type takes struct {
	cost func(*limit.Limit) int
	seed maphash.Seed
}

// Weigh implements Cargo.
func (t *takes) Weigh(takes []store.Take) Load {
	l := Load{Likeness: likenessOf(t.seed, takes), Alone: store.HasDryRun(takes)}
	for i := range takes {
		l.Cost += t.cost(takes[i].Limit)
		l.Bytes += len(takes[i].Key)
	}
	return l
}

// Copy implements Cargo. The number of a group is the place of its first take.
func (t *takes) Copy(copies []store.Take, room []byte, takes []store.Take) ([]store.Take, []byte) {
	for from, to := 0, 0; from < len(takes); from = to {
		to = store.GroupEnd(takes, from)
		group := uint32(len(copies)) + 1
		for _, one := range takes[from:to] {
			if one.Group != 0 {
				one.Group = group
			}
			room, one.Key = keep(room, one.Key)
			copies = append(copies, one)
		}
	}
	return copies, room
}

// keep appends a copy of bytes to room, and returns the copy too.
func keep(room, bytes []byte) (more, kept []byte) {
	from := len(room)
	more = append(room, bytes...)
	return more, more[from:len(more):len(more)]
}

// Refusal implements Cargo.
func (t *takes) Refusal(err error) store.Result { return store.Result{Err: err} }

// likenessOf returns the same for takes that say the same. A take on slots of
// concurrency is about its own hold, and so it is like no other request's; hits
// on a ban, which change nothing, are all alike. That others share it by chance is
// harmless: their cost is then not counted.
func likenessOf(seed maphash.Seed, takes []store.Take) uint64 {
	type part struct {
		before, key uint64
		limit       *limit.Limit
		hits        int64
		hold        limit.Hold
		op          store.Op
		shadow      bool
		grouped     bool
	}
	var h uint64
	for i := range takes {
		t := &takes[i]
		hits, hold := t.Hits, limit.Hold(0)
		switch {
		case t.Limit.Algorithm == limit.Concurrency:
			hold = t.Hold
		case t.Limit.Algorithm == limit.Ban && t.Op == store.Hit:
			hits = min(hits, 1)
		}
		h = maphash.Comparable(seed, part{h, maphash.Bytes(seed, t.Key), t.Limit, hits, hold, t.Op, t.Shadow, t.Group != 0})
	}
	return h
}
