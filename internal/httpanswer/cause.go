package httpanswer

import (
	"net/http"

	"github.com/headgate/headgate/rules"
)

// cause is why a request was denied, in the words of each body.
type cause struct {
	code     string // of platform bodies
	flat     string // of flat bodies
	sentence string
	problem  problemType
}

// problemType is a problem type of draft-ietf-httpapi-ratelimit-headers, section 5.
type problemType struct{ name, title string }

var (
	quotaExceeded   = problemType{"quota-exceeded", "Quota Exceeded"}
	reducedCapacity = problemType{"temporary-reduced-capacity", "Temporary Reduced Capacity"}
	abnormalUsage   = problemType{"abnormal-usage-detected", "Abnormal Usage Detected"}
)

var (
	overLimit       = cause{"RATE_LIMITED", "rate_limit_exceeded", "Rate limit exceeded.", quotaExceeded}
	overConcurrency = cause{"CONCURRENCY_LIMITED", "concurrency_limit_exceeded", "Too many requests in flight.", quotaExceeded}
	overSecondary   = cause{"SECONDARY_RATE_LIMITED", "secondary_rate_limit_exceeded", "Secondary rate limit exceeded.", abnormalUsage}
	banned          = cause{"BANNED", "banned", "Blocked for a while after too many denied requests.", abnormalUsage}
	unavailable     = cause{"SERVICE_UNAVAILABLE", "service_unavailable", "The limit could not be checked.", reducedCapacity}
)

// cause returns why the request was denied.
func (s *Summary) cause() *cause {
	v := s.Verdict
	switch {
	case s.Status == http.StatusServiceUnavailable:
		return &unavailable
	case v == nil:
		return &overLimit
	case isConcurrency(v):
		return &overConcurrency
	case v.Role == rules.Secondary, v.Role == rules.Sustained:
		return &overSecondary
	case v.Role == rules.Banning:
		return &banned
	}
	return &overLimit
}

// Code is the code of a denial, as platform bodies have it: RATE_LIMITED,
// CONCURRENCY_LIMITED, SECONDARY_RATE_LIMITED (also for time in flight), BANNED or
// SERVICE_UNAVAILABLE. Ask denials only.
func (s *Summary) Code() string { return s.cause().code }

// Sentence says why a request was denied, for people. Ask denials only.
func (s *Summary) Sentence() string { return s.cause().sentence }
