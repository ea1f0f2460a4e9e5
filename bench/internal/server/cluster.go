package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// slots is the number of hash slots of a Redis Cluster.
const slots = 16384

// StartCluster starts a Redis Cluster of so many masters without replicas, with
// their files in folders of dir. What it returns is to be stopped even when
// there is an error.
func StartCluster(binary, dir string, shards int) (nodes []*Redis, err error) {
	for i := range shards {
		home := filepath.Join(dir, fmt.Sprintf("shard%d", i))
		if err := os.Mkdir(home, 0o700); err != nil {
			return nodes, err
		}
		bus, err := FreeAddr()
		if err != nil {
			return nodes, err
		}
		_, port, err := net.SplitHostPort(bus)
		if err != nil {
			return nodes, err
		}
		node, err := startRedis(binary, home, false, "--cluster-enabled", "yes", "--cluster-port", port)
		if node != nil {
			node.bus = port
			nodes = append(nodes, node)
		}
		if err != nil {
			return nodes, err
		}
	}
	return nodes, join(nodes)
}

// join shares out the slots and introduces the nodes to the first.
func join(nodes []*Redis) error {
	host, port, err := net.SplitHostPort(nodes[0].Addr)
	if err != nil {
		return err
	}
	for i, n := range nodes {
		first, last := i*slots/len(nodes), (i+1)*slots/len(nodes)-1
		if _, err := n.Ask(fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", first, last)); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		if _, err := n.Ask(fmt.Sprintf("CLUSTER MEET %s %s %s", host, port, nodes[0].bus)); err != nil {
			return err
		}
	}
	deadline := time.Now().Add(startTimeout)
	for _, n := range nodes {
		for !n.whole(len(nodes)) {
			if time.Now().After(deadline) {
				return errors.New("the nodes of the cluster have not found each other")
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

// whole says that the node knows all others and who has each slot.
func (r *Redis) whole(nodes int) bool {
	info, err := r.Ask("CLUSTER INFO")
	return err == nil && strings.Contains(info, "cluster_state:ok") && infoNumber(info, "cluster_known_nodes:") == int64(nodes)
}

// ClusterURL is what Headgate calls a cluster.
func ClusterURL(nodes []*Redis) string {
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = n.Addr
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}
