package adminapi

import (
	"net/http"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/selflimit"
	"github.com/headgate/headgate/limit"
)

const (
	// callsPerSecond is how often one token may ask.
	callsPerSecond = 100
	// failuresPerSecond is how often one address may ask with a bad token.
	failuresPerSecond = 10
)

// guard limits those who ask.
type guard struct {
	*selflimit.Guard
	calls, failures *limit.Limit
}

func newGuard(now func() time.Time) (*guard, error) {
	g, err := selflimit.New(now)
	return &guard{g, limit.Must(limit.PerSecond(callsPerSecond)), limit.Must(limit.PerSecond(failuresPerSecond))}, err
}

// admit charges a call of an actor. It reports false when it has answered.
func (g *guard) admit(w http.ResponseWriter, r *http.Request, actor string) bool {
	return g.Admit(w, r, descriptor.Entry{Key: "admin_token", Value: actor}, g.calls)
}

// admitFailure charges a call with a bad token to the address that it came from. It
// reports false when it has answered.
func (g *guard) admitFailure(w http.ResponseWriter, r *http.Request) bool {
	return g.AdmitPeer(w, r, g.failures)
}
