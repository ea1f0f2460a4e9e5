package app

import (
	"fmt"
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/costlimit"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/costfile"
)

// costLimits limits what answers cost, where that is set.
type costLimits struct{ middleware *costlimit.Middleware } // nil: it is not

// costs returns what limits the costs of answers, for those whom limits of requests identify.
func (p *process) costs(s *config.Proxy, limits httplimit.Options) (costLimits, error) {
	if s.Costs == "" {
		return costLimits{}, nil
	}
	o, err := costfile.Load(s.Costs)
	if err != nil {
		return costLimits{}, fmt.Errorf("--costs: %w", err)
	}
	o.Limits = limits
	o.Limits.PassResult = false // priorities are those of the limits on requests
	m, err := costlimit.New(p.doors.open("proxy", headgate.Rights{Check: true, GiveBack: true, Reserve: true}), o)
	if err != nil {
		return costLimits{}, fmt.Errorf("--costs: %w", err)
	}
	return costLimits{m}, nil
}

func (c costLimits) wrap(next http.Handler) http.Handler {
	if c.middleware == nil {
		return next
	}
	return c.middleware.Wrap(next)
}

func (c costLimits) stats() costlimit.Stats {
	if c.middleware == nil {
		return costlimit.Stats{}
	}
	return c.middleware.Stats()
}
