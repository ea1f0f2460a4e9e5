// Package doctor checks a Redis for what a store needs of it, step by step: that it can
// be reached and asked, that scripts run, what happens when its memory is full, how far
// off its clock is, and how long answers take; and says what to change.
//
// It speaks with servers over connections of its own, so that it can tell what is wrong
// with one that is no Redis at all.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// Diagnose tries, step by step, what a Store with these options needs, and says
// what is wrong and what to change. It opens connections of its own, and writes
// one key for a moment, under the prefix. Each step lasts up to the dial timeout;
// ctx ends it all. What it finds contains no password.
func Diagnose(ctx context.Context, o conn.Options) store.Report {
	r := store.Report{Store: o.Address()}
	o, err := o.WithDefaults()
	if err != nil {
		what, hint, _ := strings.Cut(err.Error(), "; hint: ")
		r.Checks = append(r.Checks, store.Check{Name: "options", Status: store.CheckProblem, Found: what, Hint: hint})
		return r
	}
	d := &doctor{options: &o, report: &r, secrets: o.Secrets()}
	d.ownCertificates()
	switch o.Topology() {
	case conn.BySentinels:
		d.sentinels(ctx)
	case conn.InCluster:
		d.cluster(ctx)
	default:
		if p := d.visit(ctx, visit{network: o.Network, addr: o.Addr, as: &o, db: o.DB}); p != nil {
			defer p.close()
			if d.isSingle(p) {
				d.examine(ctx, p, 0)
			}
		}
	}
	for i := range r.Checks {
		c := &r.Checks[i]
		for _, secret := range d.secrets {
			c.Found = strings.ReplaceAll(c.Found, secret, "***")
			c.Hint = strings.ReplaceAll(c.Hint, secret, "***")
		}
	}
	return r
}

// doctor collects what it finds.
type doctor struct {
	options *conn.Options
	report  *store.Report
	secrets []string // that no check may hold
}

func (d *doctor) say(c store.Check) { d.report.Checks = append(d.report.Checks, c) }

// blame notes a step that failed.
func (d *doctor) blame(name, server string, err error) {
	_, hint := d.options.Classify(err)
	d.say(store.Check{Name: name, Server: server, Status: store.CheckProblem, Found: plainError(err), Hint: hint})
}

// unknown notes what could not be found out, and why.
func (d *doctor) unknown(name, server string, err error) {
	d.say(store.Check{Name: name, Server: server, Status: store.CheckUnknown, Found: plainError(err)})
}

// plainError says err without the words of package net that repeat the address.
func plainError(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "ended"
	}
	text := err.Error()
	if strings.HasSuffix(text, "i/o timeout") {
		return "no answer in time"
	}
	return text
}

// isSingle checks that a server is what a plain address is for.
func (d *doctor) isSingle(p *subject) bool {
	switch p.mode() {
	case "cluster":
		d.say(store.Check{
			Name: "kind", Server: p.addr, Status: store.CheckProblem, Found: "this is one node of a cluster, and was given as a single Redis",
			Hint: "give it as " + d.scheme() + "+cluster://" + p.addr,
		})
		return false
	case "sentinel":
		d.say(store.Check{
			Name: "kind", Server: p.addr, Status: store.CheckProblem, Found: "this is a Sentinel, and was given as a Redis",
			Hint: "give it as " + d.scheme() + "+sentinel://" + p.addr + "/0?master=NAME; it knows " + p.masters(),
		})
		return false
	case "":
		d.say(store.Check{Name: "kind", Server: p.addr, Status: store.CheckUnknown, Found: "the user may ask for neither INFO nor CLUSTER INFO", Hint: "give the user +info to have it checked"})
		return true
	}
	d.say(store.Check{Name: "kind", Server: p.addr, Status: store.CheckOK, Found: "a single Redis"})
	return true
}

func (d *doctor) scheme() string {
	if d.options.TLS != nil {
		return "rediss"
	}
	return "redis"
}

// sentinels asks each sentinel for the primary, and examines that.
func (d *doctor) sentinels(ctx context.Context) {
	o, s := d.options, d.options.Sentinel
	var reports []conn.Report
	var said []string
	for _, addr := range s.Addrs {
		p := d.visit(ctx, visit{network: "tcp", addr: addr, as: o.SentinelAt(addr), optional: true, sentinel: true})
		if p == nil {
			continue
		}
		if told := d.askSentinel(p); told.Addr != "" {
			reports, said = append(reports, told), append(said, addr+" says "+told.Addr)
		}
		p.close()
	}
	if len(reports) == 0 {
		d.say(store.Check{Name: "sentinels", Status: store.CheckProblem, Found: fmt.Sprintf("none of %d names a primary called %q", len(s.Addrs), s.Master), Hint: "see the checks of each sentinel above"})
		return
	}
	primary := conn.Newest(reports)
	if primary.Votes == len(reports) {
		d.say(store.Check{Name: "sentinels", Status: store.CheckOK, Found: "the primary is " + primary.Addr})
	} else {
		d.say(store.Check{
			Name: "sentinels", Status: store.CheckWarning,
			Found: "the sentinels name different primaries: " + strings.Join(said, ", ") + "; nodes go to " + primary.Addr,
			Hint:  "a failover may be under way: ask again; if it stays, see SENTINEL MASTER on each: the highest config-epoch counts, and of several what most say",
		})
	}
	p := d.visit(ctx, visit{network: "tcp", addr: primary.Addr, as: o, db: o.DB, toldBy: "the sentinels"})
	if p == nil {
		return
	}
	defer p.close()
	if d.isSingle(p) {
		d.examine(ctx, p, 1)
	}
}

// askSentinel returns the primary that a sentinel names; none if it names none.
func (d *doctor) askSentinel(p *subject) conn.Report {
	name := d.options.Sentinel.Master
	if mode := p.mode(); mode != "sentinel" && mode != "" {
		form := d.scheme() + "://" + p.addr
		if mode == "cluster" {
			form = d.scheme() + "+cluster://" + p.addr
		}
		d.say(store.Check{Name: "kind", Server: p.addr, Status: store.CheckProblem, Found: "this is a Redis, and was given as a Sentinel", Hint: "sentinels listen on port 26379 by default; give a Redis without them as " + form})
		return conn.Report{}
	}
	reply, err := p.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
	if err != nil {
		d.blameVisit("master", visit{addr: p.addr, sentinel: true}, err)
		return conn.Report{}
	}
	parts := texts(reply)
	if len(parts) != 2 {
		d.say(store.Check{
			Name: "master", Server: p.addr, Status: store.CheckProblem, Found: fmt.Sprintf("this sentinel knows no primary called %q", name),
			Hint: "it knows " + p.masters() + ": give one as ?master=NAME",
		})
		return conn.Report{}
	}
	told := conn.Report{Addr: net.JoinHostPort(parts[0], parts[1])}
	// A user that may not ask for it gets along without.
	if reply, err := p.do("SENTINEL", "MASTER", name); err == nil {
		facts, _ := reply.Pairs()
		told.Epoch = conn.ConfigEpoch(facts)
	}
	if _, err := p.do("SENTINEL", "CKQUORUM", name); conn.IsReply(err) && !denied(err) {
		d.say(store.Check{Name: "quorum", Server: p.addr, Status: store.CheckWarning, Found: plainError(err), Hint: "too few sentinels agree or can be reached to replace a dead primary"})
	} else if err != nil {
		d.unknown("quorum", p.addr, err)
	} else {
		d.say(store.Check{Name: "quorum", Server: p.addr, Status: store.CheckOK, Found: "a failover can be agreed on"})
	}
	return told
}

// denied reports whether a server says that its user may not ask.
func denied(err error) bool {
	reason, _ := conn.Classify(err)
	return reason == store.Denied
}

// cluster asks the first node that answers for the others, and examines each
// primary.
func (d *doctor) cluster(ctx context.Context) {
	o := d.options
	for i, addr := range o.Cluster {
		p := d.visit(ctx, d.nodeVisit(addr, i < len(o.Cluster)-1))
		if p == nil {
			continue
		}
		nodes := d.askNode(p)
		p.close()
		if len(nodes) > 0 {
			d.nodes(ctx, nodes)
			return
		}
	}
}

func (d *doctor) nodeVisit(addr string, optional bool) visit {
	return visit{network: "tcp", addr: addr, as: d.options, optional: optional}
}

// askNode checks that a server is a node of a cluster which serves all slots, and
// returns its primaries.
func (d *doctor) askNode(p *subject) []clusterNode {
	if mode := p.mode(); mode != "cluster" && mode != "" {
		c := store.Check{Name: "kind", Server: p.addr, Status: store.CheckProblem, Found: "this is a single Redis, and was given as a node of a cluster", Hint: "give it as " + d.scheme() + "://" + p.addr + "/0"}
		if mode == "sentinel" {
			c.Found, c.Hint = "this is a Sentinel, and was given as a node of a cluster", "give it as "+d.scheme()+"+sentinel://"+p.addr+"/0?master=NAME; it knows "+p.masters()
		}
		d.say(c)
		return nil
	}
	d.say(store.Check{Name: "kind", Server: p.addr, Status: store.CheckOK, Found: "a node of a cluster"})
	reply, err := p.do("CLUSTER", "SLOTS")
	if err != nil {
		d.blame("slots", p.addr, err)
		return nil
	}
	nodes, covered := clusterNodes(reply, p.addr)
	if missing := conn.HashSlots - covered; missing > 0 {
		d.say(store.Check{Name: "slots", Server: p.addr, Status: store.CheckProblem, Found: fmt.Sprintf("%d of %d slots have no primary", missing, conn.HashSlots), Hint: "redis-cli --cluster fix, or bring the missing primaries back"})
	} else {
		d.say(store.Check{Name: "slots", Server: p.addr, Status: store.CheckOK, Found: fmt.Sprintf("all served, by %d primaries", len(nodes))})
	}
	if info, err := p.do("CLUSTER", "INFO"); err == nil {
		if state := field(text(info), "cluster_state"); state != "ok" {
			d.say(store.Check{Name: "state", Server: p.addr, Status: store.CheckProblem, Found: "cluster_state is " + state, Hint: "see CLUSTER NODES for what is down"})
		}
	}
	return nodes
}

// nodes examines the primaries of a cluster.
func (d *doctor) nodes(ctx context.Context, nodes []clusterNode) {
	for _, n := range nodes {
		v := d.nodeVisit(n.addr, false)
		v.toldBy = "the nodes"
		p := d.visit(ctx, v)
		if p == nil {
			continue
		}
		p.key = d.options.Prefix + tagFor(n.slot) + "doctor"
		d.examine(ctx, p, 1)
		d.coverage(p)
		p.close()
	}
}

// tagFor returns a hash tag that leads to slot.
func tagFor(slot uint16) string {
	for n := 0; ; n++ {
		if tag := strconv.Itoa(n); conn.HashSlot(tag) == slot {
			return "{" + tag + "}"
		}
	}
}

// deadline is when a step that begins now ends at the latest.
func (d *doctor) deadline(ctx context.Context) time.Time {
	return conn.Within(ctx, d.options.DialTimeout)
}
