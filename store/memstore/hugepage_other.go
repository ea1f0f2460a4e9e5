//go:build !linux

package memstore

// advise does nothing: there is no such advice here.
func (hugePages) advise([]uint64) {}
