// Package descriptor names what a request is limited on: a domain and an
// ordered list of entries, as in Envoy's rate limit service.
package descriptor

// Entry is one key and value of a descriptor. The key is never empty in a
// valid entry; the value may be. Both may hold any bytes.
type Entry struct {
	Key   string
	Value string
}
