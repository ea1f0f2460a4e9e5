package dashboard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/oidclogin"
)

const (
	// renewBefore is how long before the end of a token it is renewed, and renewLimit bounds
	// the time of that.
	renewBefore, renewLimit = 30 * time.Second, 10 * time.Second
	// renewPause is the time between two tries.
	renewPause = 10 * time.Second
)

// renewed returns the token of a session: one that an issuer has given, and renews before it
// ends, where it does. The groups of somebody count as the issuer says at each renewal; whom
// it does not vouch for any more has a token that ends.
func renewed(client *oidclogin.Client, tokens *oidclogin.Tokens, now func() time.Time) func(context.Context) string {
	var mu sync.Mutex
	var tried time.Time
	over := false // the issuer renews it no more
	return func(ctx context.Context) string {
		mu.Lock()
		defer mu.Unlock()
		at := now()
		since := at.Sub(tried)
		if over || !tokens.Renewable() || tokens.Expires.Sub(at) > renewBefore || since >= 0 && since < renewPause {
			return tokens.ID.Reveal()
		}
		tried = at
		// The issuer may give each refresh token once: who has asked and goes away must not
		// lose the next one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewLimit)
		defer cancel()
		made, err := client.Renew(ctx, tokens)
		if why, ok := errors.AsType[*oidclogin.Error](err); ok {
			over = why.Because == oidclogin.Declined || why.Because == oidclogin.Untrusted
		}
		if err == nil {
			tokens = made
		}
		return tokens.ID.Reveal()
	}
}
