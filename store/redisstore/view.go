package redisstore

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

const (
	// askedAtOnce is how many servers of a cluster are asked for their views at
	// one time.
	askedAtOnce = 3
)

// view is what one server of a cluster says about all.
type view struct {
	of    [tagCount]string // the address of the primary that has the slot of a tag
	nodes []string         // addresses of primaries and replicas
	well  bool             // whether the server finds the cluster well
	epoch int64            // how new its knowledge is
	tags  int              // how many have an address
}

// compareViews is positive if a is better than b. A server that was cut off from
// the others finds the cluster down, or has not heard of the last failover.
func compareViews(a, b view) int {
	if a.well != b.well {
		if a.well {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.tags, b.tags))
}

// look asks servers for their views, first those that are connected, then all
// that are known, a few at a time, until one has answered. It returns the best.
func (r *router) look(ctx context.Context) (view, *store.Error) {
	fault := r.options.Fault("dial", conn.ErrFirstDial)
	var connected []*conn.Session
	for _, sh := range r.all() {
		if se, no := sh.Session(); no == nil {
			connected = append(connected, se)
		} else {
			fault = no
		}
	}
	rand.Shuffle(len(connected), func(i, j int) { connected[i], connected[j] = connected[j], connected[i] })
	connected = connected[:min(len(connected), askedAtOnce)]
	views, _ := conn.Gather(ctx, r.options.DialTimeout, len(connected), func(ctx context.Context, i int) (view, error) {
		return askView(ctx, connected[i])
	})
	r.mu.Lock()
	nodes := rand.Perm(len(r.nodes))
	addrs := r.nodes
	r.mu.Unlock()
	for len(views) == 0 && len(nodes) > 0 && ctx.Err() == nil {
		n := min(len(nodes), askedAtOnce)
		var errs []error
		views, errs = conn.Gather(ctx, r.options.DialTimeout, n, func(ctx context.Context, i int) (view, error) {
			o := r.options.At(addrs[nodes[i]])
			return conn.DialThrough(ctx, r.gateOf(o.Addr), o, func(ctx context.Context) (view, error) { return dialView(ctx, o) })
		})
		nodes = nodes[n:]
		fault = worse(fault, errs)
	}
	if len(views) == 0 {
		return view{}, fault
	}
	best := views[0]
	for _, v := range views[1:] {
		if compareViews(v, best) > 0 {
			best = v
		}
	}
	return best, nil
}

// worse returns the fault that says most: what a server answered before what it
// did not, and either before that it was not asked.
func worse(fault *store.Error, errs []error) *store.Error {
	for _, err := range errs {
		var next *store.Error
		if errors.As(err, &next) && next.Reason != store.BreakerOpen && (fault.Reason == store.Unavailable || next.Reason == store.Misconfigured) {
			fault = next
		}
	}
	return fault
}

// dialView asks a server that is not connected.
func dialView(ctx context.Context, o *Options) (view, error) {
	se, err := conn.Connect(ctx, o)
	if err != nil {
		return view{}, conn.AsUnavailable(o.Fault("dial", err))
	}
	defer se.Close()
	v, err := askView(ctx, se)
	if err != nil && conn.IsReply(err) && se.Role(ctx) == "sentinel" {
		err = conn.ErrIsSentinel
	}
	if err != nil {
		return view{}, conn.AsUnavailable(o.Fault("dial", err))
	}
	return v, nil
}

// askView asks a server.
func askView(ctx context.Context, se *conn.Session) (view, error) {
	answers := se.Pipe.AskAll(ctx, resp.Words("CLUSTER", "INFO"), resp.Words("CLUSTER", "SLOTS"))
	rows, err := answers[1].List()
	if err != nil {
		return view{}, err
	}
	v := readView(rows, se.Options.Addr)
	if v.tags == 0 {
		return view{}, conn.ErrNoSlots
	}
	// A user that may not ask for it gets along without.
	if info, err := answers[0].Text(); err == nil {
		v.well = strings.Contains(info, "cluster_state:ok")
		_, rest, _ := strings.Cut(info, "cluster_current_epoch:")
		number, _, _ := strings.Cut(rest, "\r\n")
		v.epoch, _ = strconv.ParseInt(number, 10, 64)
	}
	return v, nil
}

// readView reads the answer to CLUSTER SLOTS of the server at asked: rows of the
// first and the last slot, the primary and its replicas. What has another form
// is left out.
func readView(rows []resp.Message, asked string) view {
	var v view
	for i := range rows {
		row, err := rows[i].List()
		if err != nil || len(row) < 3 {
			continue
		}
		from, err1 := row[0].Int()
		to, err2 := row[1].Int()
		if err1 != nil || err2 != nil {
			continue
		}
		for k, node := range row[2:] {
			addr, ok := nodeAddr(node, asked)
			if !ok {
				continue
			}
			if len(v.nodes) < maxKnown {
				v.nodes = append(v.nodes, addr)
			}
			if k == 0 {
				v.assign(from, to, addr)
			}
		}
	}
	return v
}

// assign notes that the slots from from to to are at addr.
func (v *view) assign(from, to int64, addr string) {
	for i := range tags {
		if slot := int64(tags[i].hashSlot); slot >= from && slot <= to && v.of[i] == "" {
			v.of[i] = addr
			v.tags++
		}
	}
}

// nodeAddr reads host, port, id and a list of names and values. A host that the
// server does not know is the one that it was asked at; "?" stands for a host
// name that was not set, and then there is the IP address among the values.
func nodeAddr(node resp.Message, asked string) (string, bool) {
	fields, err := node.List()
	if err != nil || len(fields) < 2 {
		return "", false
	}
	port, err := fields[1].Int()
	if err != nil {
		return "", false
	}
	host := ""
	if fields[0].Err() == nil {
		if host, err = fields[0].Text(); err != nil {
			return "", false
		}
	}
	if host == "?" && len(fields) > 3 {
		if values, err := fields[3].Pairs(); err == nil {
			host = values["ip"]
		}
	}
	return nodeAt(host, strconv.FormatInt(port, 10), asked)
}
