package doctor

import (
	"cmp"
	"context"
	"crypto/sha1"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

const (
	// clockRounds is how often the clock is read: the fastest answer says most.
	clockRounds = 10
	// latencyRounds is how many empty script calls are timed.
	latencyRounds = 20
	// clockWarning is from which difference on a clock is worth a word.
	clockWarning = 100 * time.Millisecond
	// fullShare of the memory used is worth a warning.
	fullShare = 0.8
	// oldestVersion is the first major version with what the scripts need.
	oldestVersion = 5
)

// examine asks a server that lets itself be asked for all that matters to a
// store. wantReplicas is how many replicas it should have.
func (d *doctor) examine(ctx context.Context, p *subject, wantReplicas int) {
	d.version(p)
	d.role(p, wantReplicas)
	d.scripts(p)
	d.memory(p)
	d.persistence(p)
	d.clock(p)
	d.latency(p)
	d.replicas(ctx, p)
}

func (d *doctor) version(p *subject) {
	name, version := "Redis", field(p.info, "redis_version")
	if v := field(p.info, "valkey_version"); v != "" {
		name, version = "Valkey", v
	}
	if version == "" {
		d.say(store.Check{Name: "version", Server: p.addr, Status: store.CheckUnknown, Found: "the user may not ask for INFO", Hint: "give the user +info to have it checked"})
		return
	}
	c := store.Check{Name: "version", Server: p.addr, Status: store.CheckOK, Found: name + " " + version}
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < oldestVersion {
		c.Status, c.Hint = store.CheckProblem, fmt.Sprintf("version %d or newer is needed", oldestVersion)
	}
	if field(p.info, "loading") == "1" {
		d.say(store.Check{Name: "loading", Server: p.addr, Status: store.CheckProblem, Found: "it is still reading its data", Hint: "wait until it has"})
	}
	d.say(c)
}

// role makes sure that the server is a primary, and counts its replicas.
func (d *doctor) role(p *subject, wantReplicas int) {
	role, replicas := field(p.info, "role"), field(p.info, "connected_slaves")
	host, port := field(p.info, "master_host"), field(p.info, "master_port")
	if role == "" {
		reply, _ := p.do("ROLE")
		list, _ := reply.List()
		if len(list) == 0 {
			d.say(store.Check{Name: "role", Server: p.addr, Status: store.CheckUnknown, Found: "the user may ask for neither INFO nor ROLE", Hint: "give the user +role: a replica is then told from a primary at once"})
			return
		}
		role = text(list[0])
		if role == "slave" && len(list) > 2 {
			host, port = text(list[1]), list[2].String()
		}
		if connected, err := list[len(list)-1].List(); err == nil && role == "master" {
			replicas = strconv.Itoa(len(connected))
		}
	}
	if role == "slave" {
		primary := net.JoinHostPort(host, port)
		d.say(store.Check{
			Name: "role", Server: p.addr, Status: store.CheckProblem, Found: "this is a replica of " + primary + ": what it would count is lost",
			Hint: cmp.Or(d.options.ReplicaHint(), "give the address of its primary, "+primary),
		})
		return
	}
	c := store.Check{Name: "role", Server: p.addr, Status: store.CheckOK, Found: "primary with " + plural(replicas, "replica")}
	guarded := field(p.info, "min_slaves_good_slaves") != ""
	switch {
	case replicas == "0" && wantReplicas > 0:
		c.Status, c.Hint = store.CheckWarning, "nobody can take over when it fails: add a replica"
	case replicas != "0" && replicas != "" && !guarded:
		c.Hint = "min-replicas-to-write 1 and min-replicas-max-lag 10 bound what a primary counts that was cut off from the others"
	}
	d.say(c)
}

func plural(n, word string) string {
	if n == "1" {
		return n + " " + word
	}
	return n + " " + word + "s"
}

// tryScript defines a function that tries a command and notes when it is refused.
const tryScript = `local refused = {}
local try = function(name, ...)
  local answer = redis.pcall(name, ...)
  if type(answer) == 'table' and answer.err then
    refused[#refused + 1] = name .. ': ' .. answer.err
  end
end
`

// fleetScript does that for the commands by which nodes count each other, keep switches
// and answer tools, and for the shorter form of counters. No decision needs them.
const fleetScript = tryScript + `try('HSET', KEYS[1], 'a', 'x')
try('HGET', KEYS[1], 'a')
try('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
try('ZADD', KEYS[1], 1, 'a')
try('ZCARD', KEYS[1])
try('ZSCORE', KEYS[1], 'a')
try('ZREVRANGE', KEYS[1], 0, 0)
try('ZREMRANGEBYSCORE', KEYS[1], 2, 3)
try('ZREM', KEYS[1], 'a')
redis.call('DEL', KEYS[1])
try('INCRBY', KEYS[1], 1)
redis.call('DEL', KEYS[1])
return refused`

// probeScript tries each command that the scripts that decide use on one key,
// and returns the numbers as they write them and what was refused.
const probeScript = tryScript + `try('TIME')
try('SET', KEYS[1], 'x', 'PX', 1000)
try('GET', KEYS[1])
try('APPEND', KEYS[1], 'y')
try('STRLEN', KEYS[1])
try('GETRANGE', KEYS[1], 0, 1)
try('PEXPIRE', KEYS[1], 1000)
try('DEL', KEYS[1])
table.insert(refused, 1, string.format('%d', 4503599627370496))
return refused`

// scripts makes sure that the user may run what the store runs.
func (d *doctor) scripts(p *subject) {
	reply, err := p.do("EVAL", probeScript, "1", p.key)
	if err != nil {
		d.blame("scripts", p.addr, err)
		return
	}
	answers := texts(reply)
	if len(answers) == 0 {
		d.blame("scripts", p.addr, conn.ErrBadReply)
		return
	}
	if answers[0] != "4503599627370496" {
		d.blame("numbers", p.addr, conn.ErrNarrow)
		return
	}
	if refused := answers[1:]; len(refused) > 0 {
		d.say(d.refusedCommands(p.addr, refused, store.CheckProblem))
		return
	}
	if _, err := p.do("EVALSHA", fmt.Sprintf("%x", sha1.Sum([]byte(probeScript))), "1", p.key); err != nil {
		d.blame("scripts", p.addr, err)
		return
	}
	if reply, err = p.do("EVAL", fleetScript, "1", p.key); err != nil {
		d.blame("scripts", p.addr, err)
		return
	}
	if refused := texts(reply); len(refused) > 0 {
		d.say(d.refusedCommands(p.addr, refused, store.CheckWarning))
		return
	}
	d.say(store.Check{Name: "scripts", Server: p.addr, Status: store.CheckOK, Found: "EVAL, EVALSHA and all commands are permitted; numbers have 64 bits"})
}

// refusedCommands says what scripts may not do: each is "NAME: error". It is a warning
// where decisions go on all the same.
func (d *doctor) refusedCommands(server string, refused []string, status string) store.Check {
	var names []string
	var cause string
	for _, one := range refused {
		name, text, _ := strings.Cut(one, ": ")
		names, cause = append(names, name), text
	}
	c := store.Check{Name: "scripts", Server: server, Status: status, Found: strings.Join(names, ", ") + " refused in scripts: " + cause}
	_, c.Hint = d.options.Classify(&resp.Error{Text: strings.TrimPrefix(cause, "-")})
	return c
}

// memory looks at what happens when the server is full, and how full it is.
func (d *doctor) memory(p *subject) {
	policy := field(p.info, "maxmemory_policy")
	if policy == "" {
		d.say(store.Check{Name: "eviction", Server: p.addr, Status: store.CheckUnknown, Found: "the server does not tell its maxmemory-policy", Hint: "it must be noeviction: an evicted key is a count that begins anew"})
		return
	}
	c := store.Check{Name: "eviction", Server: p.addr, Status: store.CheckOK, Found: "maxmemory-policy is " + policy}
	if policy != "noeviction" {
		c.Status = store.CheckWarning
		c.Hint = "set noeviction: an evicted key is a count that begins anew. All keys of Headgate expire, so that volatile-ttl and the other volatile ones take them too"
	}
	d.say(c)
	used, err1 := strconv.ParseInt(field(p.info, "used_memory"), 10, 64)
	most, err2 := strconv.ParseInt(field(p.info, "maxmemory"), 10, 64)
	if err1 != nil || err2 != nil {
		return
	}
	c = store.Check{Name: "memory", Server: p.addr, Status: store.CheckOK, Found: fmt.Sprintf("%s used of %s", bytesText(used), bytesText(most))}
	switch {
	case most == 0:
		c.Found = bytesText(used) + " used, no maxmemory"
		c.Hint = "set maxmemory, or the operating system decides what happens when memory ends"
	case used >= most:
		c.Status, c.Hint = store.CheckProblem, "raise maxmemory, or look for what else fills this Redis; give Headgate its own"
	case float64(used) >= fullShare*float64(most):
		c.Status, c.Hint = store.CheckWarning, "raise maxmemory before it is full"
	}
	d.say(c)
}

func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
}

// clock compares the clock of the server with that of this machine.
func (d *doctor) clock(p *subject) {
	var offset, fastest time.Duration
	for i := range clockRounds {
		before := time.Now()
		reply, err := p.do("TIME")
		took := time.Since(before)
		var now limit.Micros
		if err == nil {
			now, err = conn.ParseTime(texts(reply))
		}
		if err != nil {
			d.blame("clock", p.addr, err)
			return
		}
		if i == 0 || took < fastest {
			fastest = took
			offset = time.Duration(now-limit.MicrosOf(before.Add(took/2))) * time.Microsecond
		}
	}
	c := judgeClock(offset, fastest/2)
	c.Server = p.addr
	d.say(c)
}

// judgeClock says what a server's clock minus that of this machine means, which
// is known to within exact.
func judgeClock(offset, exact time.Duration) store.Check {
	c := store.Check{Name: "clock", Status: store.CheckOK, Found: "within " + rounded(max(offset.Abs(), exact)) + " of this machine; decisions go by the clock of the store"}
	if offset.Abs() <= clockWarning {
		return c
	}
	where := " ahead of this machine"
	if offset < 0 {
		where = " behind this machine"
	}
	c.Status = store.CheckWarning
	c.Found = rounded(offset.Abs()) + where
	c.Hint = "decisions go by the clock of the store, windows of a calendar too; rules that are valid for a time by that of the node. Synchronise both with NTP"
	return c
}

// latency times scripts that do nothing.
func (d *doctor) latency(p *subject) {
	var took []time.Duration
	for range latencyRounds {
		before := time.Now()
		if _, err := p.do("EVAL", "return 0", "0"); err != nil {
			if !conn.IsReply(err) {
				d.blame("latency", p.addr, err)
			}
			return
		}
		took = append(took, time.Since(before))
	}
	slices.Sort(took)
	c := judgeLatency(took, d.options.Budget)
	c.Server = p.addr
	d.say(c)
}

// judgeLatency says what the times of scripts that do nothing, sorted, mean for
// a budget.
func judgeLatency(took []time.Duration, budget time.Duration) store.Check {
	p50, most := took[len(took)/2], took[len(took)-1]
	c := store.Check{Name: "latency", Status: store.CheckOK, Found: fmt.Sprintf("%d empty scripts: p50 %s, max %s", len(took), rounded(p50), rounded(most))}
	switch {
	case p50 >= budget:
		c.Status, c.Hint = store.CheckProblem, fmt.Sprintf("a take has %v: raise the budget, or bring the store nearer", budget)
	case most >= budget/2:
		c.Status, c.Hint = store.CheckWarning, fmt.Sprintf("a take has %v: little is left of it", budget)
	}
	return c
}

// rounded writes d in three digits or so.
func rounded(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
