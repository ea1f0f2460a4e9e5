package conn

import (
	"context"
	"errors"
	"maps"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/resp"
)

// Replicas says that peeks of operators may be answered by replicas.
type Replicas struct {
	// Addrs are those of the replicas of a single Redis, HOST:PORT, up to MaxAddrs, which
	// may be names that lead to several. Empty means that the primary is asked for its
	// replicas, in a cluster the servers for those of all.
	Addrs []string
}

// MaxReplicas bounds the replicas of one primary that are known.
const MaxReplicas = 32

// Why a replica is no place to read at.
var (
	errNoReplica = errors.New("the server is no replica")
	errUnlinked  = errors.New("the replica has no link to its primary, or copies it anew")
)

// ReplicaAt returns o for the replica at addr. Where its certificate was to be for the
// host of the primary, because no other name was given, it is to be for its own.
func (o *Options) ReplicaAt(addr string) *Options {
	one := o.At(addr)
	one.Network = "tcp"
	if one.TLS != nil && one.TLS.ServerName == hostOf(o.Addr) {
		one.TLS = one.TLS.Clone()
		one.TLS.ServerName = ""
	}
	return one
}

// Link asks a replica for its link to its primary, as INFO replication tells it, and
// returns for how long at most it has not heard of it. A primary that has nothing to send
// sends a sign of life every ten seconds (repl-ping-replica-period), so up to that means
// little. What was on its way when the replica heard of its primary last is not in it. It
// is an error where the server is no replica, or has no link that is up.
func (s *Session) Link(ctx context.Context) (heard time.Duration, err error) {
	info, err := s.Pipe.Ask(ctx, resp.Words("INFO", "replication")).Text()
	if err != nil {
		return 0, err
	}
	return ReadLink(info)
}

// ReadLink reads an answer to INFO replication of a replica. Its seconds are the difference
// of two readings of a clock of whole seconds, so that one more is an upper bound.
func ReadLink(info string) (heard time.Duration, err error) {
	facts := maps.Collect(InfoLines(info))
	if facts["role"] != "slave" {
		return 0, errNoReplica
	}
	seconds, err := strconv.ParseInt(facts["master_last_io_seconds_ago"], 10, 32)
	if err != nil || seconds < 0 || facts["master_link_status"] != "up" || facts["master_sync_in_progress"] != "0" {
		return 0, errUnlinked
	}
	return time.Duration(seconds+1) * time.Second, nil
}

// ReplicasOf asks a primary for the replicas that are up to date with it or nearly so, at
// most MaxReplicas.
func (s *Server) ReplicasOf(ctx context.Context) ([]string, error) {
	answer, err := s.Ask(ctx, "replicas", resp.Words("INFO", "replication"))
	if err != nil {
		return nil, err
	}
	info, err := answer.Text()
	if err != nil {
		return nil, s.Fault("replicas", ErrBadReply)
	}
	return ReadReplicas(info), nil
}

// ReadReplicas reads an answer to INFO replication of a primary: lines such as
// "slave0:ip=10.0.0.2,port=6379,state=online,offset=14,lag=0". What has another form, or is
// being copied to, is left out.
func ReadReplicas(info string) (addrs []string) {
	for name, value := range InfoLines(info) {
		if _, numbered := strings.CutPrefix(name, "slave"); !numbered || len(addrs) == MaxReplicas {
			continue
		}
		said := infoPairs(value)
		if port, err := strconv.ParseUint(said["port"], 10, 16); err == nil && port > 0 && said["ip"] != "" && said["state"] == "online" {
			addrs = append(addrs, net.JoinHostPort(said["ip"], said["port"]))
		}
	}
	return addrs
}
