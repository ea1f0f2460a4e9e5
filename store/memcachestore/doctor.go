package memcachestore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// latencyRounds is how many reads are timed.
	latencyRounds = 20
	// maxStats bounds the lines of an answer to stats.
	maxStats = 1000
	// clockWarning is from which difference on a clock is worth a word;
	// memcached tells its own in whole seconds.
	clockWarning = 2 * time.Second
)

// Diagnose tries, step by step, what a Store with these options needs of each
// server, and says what is wrong and what to change. It writes one key for a
// moment, under the prefix. Each step lasts up to the dial timeout; ctx ends it
// all.
func Diagnose(ctx context.Context, o Options) store.Report {
	r := store.Report{Store: o.String()}
	o, err := o.withDefaults()
	if err != nil {
		what, hint, _ := strings.Cut(err.Error(), "; hint: ")
		r.Checks = append(r.Checks, store.Check{Name: "options", Status: store.CheckProblem, Found: what, Hint: hint})
		return r
	}
	for _, addr := range o.Servers {
		d := &doctor{options: &o, addr: addr, pool: newPool(&o, addr)}
		d.examine(ctx)
		d.pool.close()
		r.Checks = append(r.Checks, d.checks...)
	}
	r.Checks = append(r.Checks, store.Check{
		Name: "clock", Status: store.CheckWarning, Found: "memcached tells no time: decisions go by the clocks of the nodes",
		Hint: "keep all nodes synchronised with NTP",
	}, store.Check{
		Name: "algorithms", Status: store.CheckWarning, Found: "fixed_window and sliding_window only",
		Hint: "other algorithms, leases and exact groups need Redis",
	})
	return r
}

// doctor examines one server.
type doctor struct {
	options *Options
	addr    string
	pool    *pool
	checks  []store.Check
}

func (d *doctor) say(name, status, found, hint string) {
	d.checks = append(d.checks, store.Check{Name: name, Server: d.addr, Status: status, Found: found, Hint: hint})
}

func (d *doctor) blame(name string, err error) {
	reason, hint := classify(err)
	if hint == "" && reason == store.Timeout {
		hint = "nothing answers there: check host and port, and that the process does not hang"
	}
	found := err.Error()
	if reason == store.Timeout {
		found = "no answer in time"
	}
	d.say(name, store.CheckProblem, found, hint)
}

// examine makes the checks; the first that fails is the last.
func (d *doctor) examine(ctx context.Context) {
	if !d.resolve(ctx) {
		return
	}
	var version string
	err := d.step(ctx, func(c *conn) (err error) {
		if err = c.send([]byte(askVersion)); err == nil {
			version, err = readVersion(c.r)
		}
		return err
	})
	if err != nil {
		d.blame("connect", err)
		return
	}
	d.say("connect", store.CheckOK, "memcached "+version, "")
	d.secured(ctx)
	if d.swap(ctx) {
		d.stats(ctx)
		d.latency(ctx)
	}
}

func (d *doctor) resolve(ctx context.Context) bool {
	host, _, err := net.SplitHostPort(d.addr)
	if err != nil || net.ParseIP(host) != nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, d.options.DialTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		d.say("resolve", store.CheckProblem, "the host name is unknown: "+err.Error(), "check the spelling, and the DNS of this machine")
		return false
	}
	slices.Sort(ips)
	d.say("resolve", store.CheckOK, strings.Join(ips, ", "), "")
	return true
}

// step does f on a connection.
func (d *doctor) step(ctx context.Context, f func(*conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.options.DialTimeout)
	defer cancel()
	c, err := d.pool.get(ctx)
	if err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	if err = c.SetDeadline(deadline); err == nil {
		err = f(c)
	}
	if err != nil {
		d.pool.drop(c, err)
	} else {
		d.pool.put(c)
	}
	return err
}

// swap writes, reads and swaps a key, as a take does.
func (d *doctor) swap(ctx context.Context) bool {
	name := d.options.Prefix + "doctor"
	state := limit.State{Kind: kindFixedWindow, A: 1, B: 2}
	err := d.step(ctx, func(c *conn) error {
		const seconds = 2
		if _, err := c.Write(appendWrite(nil, name, item{}, state, seconds)); err != nil {
			return err
		}
		// It may be there, from another doctor.
		if _, err := readOutcome(c.r); err != nil {
			return err
		}
		if _, err := c.Write(appendGets(nil, name)); err != nil {
			return err
		}
		it, err := readItem(c.r, name)
		if err != nil {
			return err
		}
		if !it.found {
			return errors.New("what was written is not there")
		}
		if _, err := c.Write(appendWrite(nil, name, it, limit.State{}, 0)); err != nil {
			return err
		}
		_, err = readOutcome(c.r)
		return err
	})
	if err != nil {
		d.blame("swap", err)
		return false
	}
	d.say("swap", store.CheckOK, "add, gets and cas work", "")
	return true
}

// stats looks at what the server tells of itself.
func (d *doctor) stats(ctx context.Context) {
	all := map[string]string{}
	for _, command := range []string{"stats\r\n", "stats settings\r\n"} {
		err := d.step(ctx, func(c *conn) error {
			if _, err := c.Write([]byte(command)); err != nil {
				return err
			}
			return readStats(c.r, all)
		})
		if err != nil {
			d.say("eviction", store.CheckUnknown, "the server does not answer stats: "+err.Error(), "")
			return
		}
	}
	evicted, _ := strconv.ParseInt(all["evictions"], 10, 64)
	switch {
	case evicted > 0:
		d.say("eviction", store.CheckWarning, fmt.Sprintf("%d items were dropped to make room", evicted), "a dropped count begins anew: give memcached more memory (-m), or a server of Headgate's own")
	case all["bytes"] != "":
		d.say("eviction", store.CheckOK, fmt.Sprintf("nothing was dropped so far; %s of %s bytes used", all["bytes"], all["limit_maxbytes"]), "when memory ends the oldest counts are dropped and begin anew")
	}
	if refused, _ := strconv.ParseInt(all["rejected_connections"], 10, 64); refused > 0 {
		d.say("connections", store.CheckWarning, fmt.Sprintf("%d were refused since the server started; it has %s now and takes %s", refused, all["curr_connections"], all["max_connections"]), connectionsHint)
	}
	if now, err := strconv.ParseInt(all["time"], 10, 64); err == nil {
		if off := time.Since(time.Unix(now, 0)); off.Abs() > clockWarning {
			d.say("server clock", store.CheckWarning, fmt.Sprintf("%v away from this machine", off.Abs().Round(time.Second)), "values that are kept for more than 30 days expire by it")
		}
	}
}

// readStats reads lines of "STAT name value" into all; the first value of a name
// counts.
func readStats(r *bufio.Reader, all map[string]string) error {
	for range maxStats {
		line, err := readLine(r)
		if err != nil {
			return err
		}
		if string(line) == "END" {
			return nil
		}
		text, ok := bytes.CutPrefix(line, []byte("STAT "))
		if !ok {
			return errorLine(line)
		}
		name, value, _ := strings.Cut(string(text), " ")
		if _, known := all[name]; !known {
			all[name] = value
		}
	}
	return errNotMemcached
}

// latency times reads.
func (d *doctor) latency(ctx context.Context) {
	var took []time.Duration
	name := d.options.Prefix + "doctor"
	err := d.step(ctx, func(c *conn) error {
		for range latencyRounds {
			before := time.Now()
			if _, err := c.Write(appendGets(nil, name)); err != nil {
				return err
			}
			if _, err := readItem(c.r, name); err != nil {
				return err
			}
			took = append(took, time.Since(before))
		}
		return nil
	})
	if err != nil {
		d.blame("latency", err)
		return
	}
	slices.Sort(took)
	p50, most := took[len(took)/2], took[len(took)-1]
	status, hint := store.CheckOK, ""
	// A take that changes its bucket is two reads long.
	if budget := d.options.Budget; 2*p50 >= budget {
		status, hint = store.CheckProblem, fmt.Sprintf("a take has %v and needs two trips: raise the budget, or bring the server nearer", budget)
	} else if 2*most >= budget {
		status, hint = store.CheckWarning, fmt.Sprintf("a take has %v and needs two trips: little is left of it", budget)
	}
	d.say("latency", status, fmt.Sprintf("%d reads: p50 %v, max %v", latencyRounds, p50.Round(time.Microsecond), most.Round(time.Microsecond)), hint)
}
