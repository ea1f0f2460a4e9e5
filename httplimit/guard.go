package httplimit

import (
	"errors"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/memstore"
)

// guardBytes bounds the memory of a Guard: room for more than half a million
// addresses, above which newcomers share buckets.
const guardBytes = 32 << 20

// Guard returns the last guard inside a backend: each peer address is limited
// by all rates, counted in the memory of this process.
//
//	guard, err := httplimit.Guard(limit.PerSecond(20), limit.PerMinute(300))
//	...
//	http.ListenAndServe(addr, guard.Wrap(mux))
//
// Behind a proxy all requests have the proxy's address; use New with an
// Identify of your own there.
func Guard(rates ...limit.Spec) (*Middleware, error) {
	if len(rates) == 0 {
		return nil, errors.New("new guard: no rate; hint: limit.PerSecond(20)")
	}
	var limits []rules.NamedLimit
	for _, rate := range rates {
		l, err := limit.New(rate)
		if err != nil {
			return nil, fmt.Errorf("new guard: %w", err)
		}
		limits = append(limits, rules.NamedLimit{Limit: l})
	}
	buckets, err := memstore.New(memstore.Options{MaxBytes: guardBytes})
	if err != nil {
		return nil, fmt.Errorf("new guard: %w", err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets})
	if err != nil {
		return nil, fmt.Errorf("new guard: %w", err)
	}
	return New(limiter, Options{Limits: limits})
}
