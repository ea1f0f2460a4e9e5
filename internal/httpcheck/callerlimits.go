package httpcheck

import (
	"github.com/headgate/headgate/internal/memo"
	"github.com/headgate/headgate/limit"
)

// maxCallerLimits bounds the compiled limits that are kept. Callers name few
// different ones; whoever names more pays for compiling them each time.
const maxCallerLimits = 1024

// callerLimit is a compiled limit and its window as text.
type callerLimit struct {
	limit  *limit.Limit
	window string
}

// callerLimits remembers the limits that callers named.
type callerLimits = memo.Memo[limit.Spec, callerLimit]

func newCallerLimits() *callerLimits {
	return memo.New(maxCallerLimits, func(spec limit.Spec) (callerLimit, error) {
		l, err := limit.New(spec)
		if err != nil {
			return callerLimit{}, err
		}
		return callerLimit{limit: l, window: windowOf(spec)}, nil
	})
}
