// Package promhistory asks a Prometheus what nodes have answered, over longer than they remember it
// themselves. It reads the metrics of docs/metrics.md, as sums over all nodes.
package promhistory
