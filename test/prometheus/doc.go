// Package prometheus holds what operators see through Prometheus against real programs:
// promtool checks the rules of deploy/prometheus and runs their unit tests, amtool checks
// the routes of deploy/alertmanager, and a Prometheus scrapes Headgate under load, so
// that every query of deploy/grafana answers and alerts fire.
package prometheus
