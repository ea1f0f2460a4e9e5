package doctor

import "github.com/headgate/headgate/store"

// coverage notes whether a primary of a cluster goes on when another shard is away.
func (d *doctor) coverage(p *subject) {
	c := judgeCoverage(p)
	c.Name, c.Server = "coverage", p.addr
	d.say(c)
}

// judgeCoverage asks the server itself, because each node of a cluster goes by its own setting.
func judgeCoverage(p *subject) store.Check {
	reply, err := p.do("CONFIG", "GET", "cluster-require-full-coverage")
	words := texts(reply)
	switch {
	case err != nil || len(words) != 2:
		return store.Check{
			Status: store.CheckUnknown, Found: "this user may not ask whether the server goes on when another shard is away",
			Hint: "set cluster-require-full-coverage no, because Redis has it on by default; give the user +config|get to have it checked",
		}
	case words[1] == "no":
		return store.Check{Status: store.CheckOK, Found: "it goes on when another shard is away"}
	}
	return store.Check{
		Status: store.CheckWarning, Found: "it refuses all keys when another shard is away (cluster-require-full-coverage " + words[1] + ")",
		Hint: "set cluster-require-full-coverage no on every node: only the keys of a shard that is away are then decided by failure mode",
	}
}
