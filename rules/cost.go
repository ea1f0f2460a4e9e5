package rules

import "strconv"

// Of returns the cost that value names: 1 when it is missing, not a whole
// number or negative, and c.Max when it is larger than that.
func (c Cost) Of(value string) int64 {
	cost, err := strconv.ParseUint(value, 10, 64)
	switch {
	case err == nil && cost <= uint64(c.Max):
		return int64(cost)
	case err == nil, isTooLarge(err):
		return c.Max
	}
	return 1
}

// isTooLarge reports whether a number failed to parse for its size alone.
func isTooLarge(err error) bool {
	numError, ok := err.(*strconv.NumError)
	return ok && numError.Err == strconv.ErrRange
}
