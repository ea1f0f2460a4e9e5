// Package webhook sends events about quotas to others over HTTP, and reads events that
// others send to Headgate.
//
// Out: a Notifier sees decisions. When a tenant has used a share of a quota it sends
// an event to each receiver that the file names: once for each tenant, limit,
// threshold and window. No decision waits for it. Every node tells what it sees; an
// event has the same ID on all of them, and a receiver keeps the first.
//
// In: Verify checks the signature of a request. What it asks for is done elsewhere.
//
// Both directions are signed alike: see Sign.
package webhook
