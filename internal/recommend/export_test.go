package recommend

import "slices"

// Above returns how many of the keys that are known needed more than a quota.
func (s *Seen) Above(quota int64) int64 {
	i, _ := slices.BinarySearch(s.needs, quota+1)
	return int64(len(s.needs) - i)
}
