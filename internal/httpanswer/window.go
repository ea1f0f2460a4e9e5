package httpanswer

import "github.com/headgate/headgate/rules"

// WindowSeconds is the window of the limit that speaks, as RateLimit-Policy tells
// it: seconds, rounded up; 0 where it is shorter than a second, and where there is
// none that hits are counted in.
func (s *Summary) WindowSeconds() int64 {
	v := s.Verdict
	if v == nil || v.Limit == nil || v.Role == rules.Sustained || v.Role == rules.Banning {
		return 0
	}
	return policyOf(v).window
}
