// Package grafana holds the dashboards of deploy/grafana against Grafana's own schema, as
// Grafana publishes it in types of Go. It has tests alone.
package grafana
