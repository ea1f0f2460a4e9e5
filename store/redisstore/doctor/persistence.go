package doctor

import (
	"strings"

	"github.com/headgate/headgate/store"
)

// persistence notes what a restart costs.
func (d *doctor) persistence(p *subject) {
	if field(p.info, "aof_enabled") == "" {
		return
	}
	c := d.judgePersistence(p)
	c.Name, c.Server = "persistence", p.addr
	if field(p.info, "rdb_last_bgsave_status") == "err" {
		c.Status, c.Found = store.CheckWarning, "the last snapshot failed"
		c.Hint = "free the disk: Redis refuses writes then, unless stop-writes-on-bgsave-error is off"
	}
	if field(p.info, "aof_last_write_status") == "err" {
		c.Status, c.Found = store.CheckProblem, "the append-only file cannot be written, and Redis refuses writes"
		c.Hint = "free the disk; CONFIG SET appendonly no goes on without the file"
	}
	d.say(c)
}

// judgePersistence says what is kept by an append-only file, by snapshots, or not at all.
func (d *doctor) judgePersistence(p *subject) store.Check {
	if field(p.info, "aof_enabled") == "1" {
		return store.Check{Status: store.CheckOK, Found: "append-only file: counts survive a restart"}
	}
	reply, err := p.do("CONFIG", "GET", "save")
	words := texts(reply)
	switch {
	case err != nil || len(words) != 2:
		return store.Check{
			Status: store.CheckUnknown, Found: "no append-only file; whether there are snapshots this user may not ask",
			Hint: "counts since the last snapshot are lost at a restart, all of them without one; give the user +config|get to have it checked",
		}
	case strings.TrimSpace(words[1]) != "":
		return store.Check{Status: store.CheckOK, Found: "no append-only file, but snapshots (save " + words[1] + "): counts since the last one are lost at a restart"}
	}
	c := store.Check{Status: store.CheckOK, Found: "neither an append-only file nor snapshots: all counts are lost at a restart", Hint: "appendonly yes keeps them"}
	if n := field(p.info, "connected_slaves"); n != "" && n != "0" {
		c.Status = store.CheckWarning
		c.Hint = "a primary that restarts empty empties its replicas too: appendonly yes, or let nothing start it by itself"
	}
	return c
}
