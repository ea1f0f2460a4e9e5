package main

import (
	"fmt"
)

// The axes along which costs are measured here. storeload has the others.
const (
	axisNodes       = "nodes"
	axisConnections = "connections"
)

// callsUnderWay is how many calls are under way in all rows of an axis, as far
// as each connection has one at least.
const callsUnderWay = 64

// scaleSystems returns the rows of an axis, a few of them or all; none when
// there is no such axis.
func scaleSystems(axis string, full bool) []system {
	switch axis {
	case axisNodes:
		return nodesAxis(full)
	case axisConnections:
		return connectionsAxis(full)
	}
	return nil
}

// nodesAxis is more and more processes of Headgate on one Redis, and on a
// cluster.
func nodesAxis(full bool) (systems []system) {
	counts := []int{1, 4}
	if full {
		counts = []int{1, 2, 4, 8}
	}
	const connections = 8 // each of the nodes has one at least
	add := func(name string, h headgate) {
		systems = append(systems, system{
			name: name, protocol: envoy, workloads: []workload{one}, start: h.start,
			axis: axisNodes, connections: connections, streams: callsUnderWay / connections,
		})
	}
	for _, n := range counts {
		add(counted(n, "node")+", one Redis", headgate{store: oneRedis, nodes: n})
	}
	add(fmt.Sprintf("%s, %d shards of a cluster", counted(counts[len(counts)-1], "node"), shards), headgate{store: cluster, nodes: counts[len(counts)-1]})
	return systems
}

// connectionsAxis is more and more connections to one process.
func connectionsAxis(full bool) (systems []system) {
	counts := []int{1, 1000}
	if full {
		counts = []int{1, 10, 100, 1000, 10_000}
	}
	for _, n := range counts {
		for _, transport := range []string{"h2", "grpc-go"} {
			h := headgate{store: oneRedis, flags: []string{"--grpc-transport", transport}}
			systems = append(systems, system{
				name: counted(n, "connection") + ", " + transport, protocol: envoy, workloads: []workload{one}, start: h.start,
				axis: axisConnections, connections: n, streams: max(1, callsUnderWay/n),
			})
		}
	}
	return systems
}

// counted is "1 node" or "4 nodes".
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
