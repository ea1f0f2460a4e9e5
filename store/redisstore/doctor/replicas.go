package doctor

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// replicas checks those that operators are to read from, where the options have any. None
// is needed to decide: what is wrong with one is a warning.
func (d *doctor) replicas(ctx context.Context, p *subject) {
	if d.options.Replicas == nil {
		return
	}
	addrs, toldBy := d.options.Replicas.Addrs, ""
	if len(addrs) == 0 {
		addrs, toldBy = d.replicasOf(p), "primaries"
	}
	if len(addrs) == 0 {
		d.say(store.Check{
			Name: "replicas", Server: p.addr, Status: store.CheckWarning, Found: "none is known of which operators could read, so the primary is asked",
			Hint: "add a replica, or give the user +info: that tells which there are",
		})
	}
	for _, addr := range addrs {
		v := visit{network: "tcp", addr: addr, as: d.options.ReplicaAt(addr), db: d.options.DB, optional: true, toldBy: toldBy}
		if r := d.visit(ctx, v); r != nil {
			d.link(r)
			r.close()
		}
	}
}

// replicasOf returns the replicas that a primary knows of.
func (d *doctor) replicasOf(p *subject) []string {
	if d.options.Topology() != conn.InCluster {
		return conn.ReadReplicas(p.info)
	}
	reply, err := p.do("CLUSTER", "SLOTS")
	if err != nil {
		return nil
	}
	return clusterReplicas(reply, p.addr)
}

// clusterReplicas reads the answer to CLUSTER SLOTS of the primary at addr: its replicas, at
// most conn.MaxReplicas.
func clusterReplicas(reply resp.Message, addr string) (addrs []string) {
	host, _, _ := net.SplitHostPort(addr)
	ranges, _ := reply.List()
	for _, one := range ranges {
		parts, _ := one.List()
		if len(parts) < 3 || nodeAt(parts[2], host) != addr {
			continue
		}
		for _, node := range parts[3:] {
			if at := nodeAt(node, host); at != "" && !slices.Contains(addrs, at) && len(addrs) < conn.MaxReplicas {
				addrs = append(addrs, at)
			}
		}
	}
	return addrs
}

// nodeAt returns the address of a node of such an answer, "" for what is none; one that does
// not know its own is at host.
func nodeAt(node resp.Message, host string) string {
	words, _ := node.List()
	if len(words) < 2 {
		return ""
	}
	name := text(words[0])
	if name == "" || name == "?" {
		name = host
	}
	port, err := words[1].Int()
	if err != nil || port <= 0 || port > 1<<16-1 {
		return ""
	}
	return net.JoinHostPort(name, strconv.FormatInt(port, 10))
}

// link checks that a replica can tell what was used.
func (d *doctor) link(r *subject) {
	c := store.Check{Name: "replica", Server: r.addr, Status: store.CheckWarning}
	if r.info == "" {
		c.Found, c.Hint = "the user may not ask it for INFO, so it is not read from", "give the user +info there too"
		d.say(c)
		return
	}
	heard, err := conn.ReadLink(r.info)
	if err != nil {
		c.Found, c.Hint = err.Error(), "see INFO replication there; until then the primary is asked"
		d.say(c)
		return
	}
	if d.options.Topology() == conn.InCluster {
		_, err = r.do("READONLY")
	}
	if err == nil {
		_, err = r.do("EVAL", "return 1", "0")
	}
	if err != nil {
		c.Found, c.Hint = plainError(err), "give the user +eval and +evalsha there too, and in a cluster +readonly"
		d.say(c)
		return
	}
	c.Status, c.Found = store.CheckOK, fmt.Sprintf("a replica, which heard of its primary %v ago or less", heard)
	d.say(c)
}
