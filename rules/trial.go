package rules

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/descriptor"
)

const (
	// MinTrial and MaxTrial are the spans over which candidates may be compared,
	// DefaultTrial the one unless a rule says otherwise.
	MinTrial     = 10 * time.Second
	MaxTrial     = 24 * time.Hour
	DefaultTrial = 10 * time.Minute
	// DefaultMinRequests is the min_requests of roll_back unless a rule says otherwise.
	DefaultMinRequests = 100
	// MaxCandidateTenants bounds the tenants that a candidate names.
	MaxCandidateTenants = 1000
)

// Trial says whom the candidate limits of a rule are enforced for, in place of its
// main limits (`candidate`). Everybody's requests count in both.
type Trial struct {
	// Percent is the share of tenants, or of descriptors that name none, always the
	// same ones: 1 to 100. 0 is nobody but Tenants.
	Percent int
	// Tenants are tenants that it is enforced for whatever the share.
	Tenants []descriptor.Entry
	// RollBack, when not nil, says when the candidate is not enforced any more.
	RollBack *RollBack
}

// RollBack says when a candidate is taken back by itself.
type RollBack struct {
	// Above is the share of requests that only the candidate denies above which it is,
	// in thousandths of a percent.
	Above int64
	// Over is the span of time that is looked at.
	Over time.Duration
	// MinRequests is how many requests it takes in that span.
	MinRequests int64
}

// Watches reports whether the candidate is enforced for nobody.
func (t *Trial) Watches() bool { return t.Percent == 0 && len(t.Tenants) == 0 }

// Over returns the span of time over which the candidate is compared with the main limits.
func (t *Trial) Over() time.Duration {
	if t.RollBack == nil {
		return DefaultTrial
	}
	return t.RollBack.Over
}

// String returns whom the candidate is enforced for and until when, such as "enforced for
// 10% and tenant:acme, rolled back above 5% of 100 requests or more in 10m".
func (t *Trial) String() string {
	if t == nil {
		return ""
	}
	text := "enforced for nobody yet"
	switch {
	case t.Percent > 0 && len(t.Tenants) > 0:
		text = fmt.Sprintf("enforced for %d%% and %s", t.Percent, tenantsText(t.Tenants))
	case t.Percent > 0:
		text = fmt.Sprintf("enforced for %d%%", t.Percent)
	case len(t.Tenants) > 0:
		text = "enforced for " + tenantsText(t.Tenants)
	}
	if b := t.RollBack; b != nil {
		text += fmt.Sprintf(", rolled back above %s%% of %s or more in %s", thousandths(b.Above), CountText(b.MinRequests, "request"), DurationText(b.Over))
	}
	return text
}

// TenantsTold is how many tenants of a candidate Trial.String names.
const TenantsTold = 3

// tenantsText names tenants as rules do, the first few of them.
func tenantsText(tenants []descriptor.Entry) string {
	text := ""
	for i, tenant := range tenants {
		if i == TenantsTold {
			return text + fmt.Sprintf(" and %d more", len(tenants)-i)
		}
		if i > 0 {
			text += " "
		}
		text += tenant.Key + ":" + tenant.Value
	}
	return text
}
