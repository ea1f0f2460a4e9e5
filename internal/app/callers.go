package app

import (
	"context"
	"fmt"
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/apikeys"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/explain"
	"github.com/headgate/headgate/internal/httpcheck"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/rls"
)

// gate is where callers come in who say themselves what a request is limited on.
type gate = callers.Gate[*apikeys.Door]

// trust says who may ask for what.
type trust struct {
	settings config.Callers
	// file is that of --callers; nil without.
	file *callers.File
	// ops is for who reaches the operators' address.
	ops *gate
}

// trustCallers reads who may ask for what, and keeps it as the file has it. Before, those
// who reach the operators' address may have requests explained, and there is nobody else.
func (p *process) trustCallers(s *config.Callers) error {
	p.trust.settings = *s
	if s.Callers == "" {
		return nil
	}
	file, err := callers.Load(s.Callers)
	if err != nil {
		return fmt.Errorf("--callers: %w", err)
	}
	p.trust.file = file
	p.refusals.Serve(refusals.HTTP, refusals.GRPC, refusals.Auth)
	p.trust.ops = p.gate(callers.Ops, "ops", "")
	p.tasks = append(p.tasks, func(ctx context.Context) { p.reread(ctx, "the file of --callers", file.Reload) })
	return nil
}

// gateDoors are the doors under which those are counted who do not come in.
var gateDoors = map[callers.Listener]refusals.Door{
	callers.HTTP: refusals.HTTP, callers.GRPC: refusals.GRPC, callers.Auth: refusals.Auth, callers.Ops: refusals.Ops,
}

// gate returns where callers come in at the listener of an address, to doors of the front
// of that name.
func (p *process) gate(at callers.Listener, front, addr string) *gate {
	return callers.New(callers.Options[*apikeys.Door]{
		File: p.trust.file, Listener: at, Anonymous: p.trust.anonymous(at, addr), Closed: p.trust.closed(),
		Refusals: p.refusals, Door: gateDoors[at],
		Open: func(r headgate.Rights) *apikeys.Door { return p.doors.openRaw(front, r) },
	})
}

// anonymous returns what those may do who show no credential, where no file says it.
func (t *trust) anonymous(at callers.Listener, addr string) headgate.Rights {
	switch {
	case at == callers.Ops:
		return headgate.Rights{Explain: true}
	case t.file != nil:
		return headgate.Rights{}
	}
	open := t.settings.OpensLimits(addr)
	return headgate.Rights{Check: true, Reserve: true, NameLimits: open, GiveBack: open}
}

// closed returns the rights that nobody has.
func (t *trust) closed() headgate.Rights {
	closed := t.settings.ClosesLimits()
	return headgate.Rights{NameLimits: closed, GiveBack: closed}
}

// overHTTP returns what decides for callers of the HTTP API.
func overHTTP(g *gate) func(*http.Request) (httpcheck.Checker, error) {
	return func(r *http.Request) (httpcheck.Checker, error) { return g.HTTP(r) }
}

// overJSON returns what decides for callers of /json.
func overJSON(g *gate) func(*http.Request) (rls.Checker, error) {
	return func(r *http.Request) (rls.Checker, error) { return g.HTTP(r) }
}

// explained answers requests to explain of who may come in by the gate that g returns.
func explained(g func() *gate) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		door, err := g().HTTP(r)
		if err != nil {
			http.Error(w, err.Error(), callers.Answer(w.Header(), err))
			return
		}
		explain.Handler(door).ServeHTTP(w, r)
	})
}

// gatewayCallers lets gateways in that are no peers.
type gatewayCallers struct{ gate *gate }

// gatewayCallers returns who they are; nil without a file that could name them.
func (p *process) gatewayCallers() *gatewayCallers {
	if p.trust.file == nil {
		return nil
	}
	return &gatewayCallers{p.gate(callers.Auth, "auth", "")}
}

// ways returns what lets them in over HTTP and over gRPC; nil of nil.
func (g *gatewayCallers) ways() (func(*http.Request) error, func(context.Context) error) {
	if g == nil {
		return nil, nil
	}
	return g.overHTTP, g.overGRPC
}

// overHTTP returns nil for a request of who may ask. Its Authorization is that of a
// gateway's client, so that it shows nothing.
func (g *gatewayCallers) overHTTP(r *http.Request) error {
	own := *r
	own.Header = http.Header{callers.TokenHeader: r.Header[callers.TokenHeader]}
	door, err := g.gate.HTTP(&own)
	return mayCheck(door, err)
}

// overGRPC returns nil for a call of who may ask.
func (g *gatewayCallers) overGRPC(ctx context.Context) error {
	door, err := rls.Enter(ctx, g.gate)
	return mayCheck(door, err)
}

// mayCheck returns an error for who comes in by a door and has no right to check.
func mayCheck(door *apikeys.Door, err error) error {
	if err != nil {
		return err
	}
	return door.Permit(nil)
}
