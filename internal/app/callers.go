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
	"github.com/headgate/headgate/internal/problems"
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
	p.refusals.Serve(refusals.HTTP, refusals.GRPC, refusals.Auth, refusals.Redis)
	p.trust.ops = p.gate(entrance{at: callers.Ops, front: "ops", needs: headgate.Rights{Explain: true}})
	p.keepFresh("callers", "the file of --callers", file.Reload)
	return nil
}

// gateDoors are the doors under which those are counted who do not come in.
var gateDoors = map[callers.Listener]refusals.Door{
	callers.HTTP: refusals.HTTP, callers.GRPC: refusals.GRPC, callers.Auth: refusals.Auth, callers.Ops: refusals.Ops,
	callers.Redis: refusals.Redis,
}

// entrance is where callers come in.
type entrance struct {
	// at is the listener, which has the address addr.
	at   callers.Listener
	addr string
	// front is the name of the doors that callers are let in by.
	front string
	// needs are the rights of which a caller has to have one.
	needs headgate.Rights
}

// decides are the rights of which one is needed for what is decided.
var decides = headgate.Rights{Check: true, Reserve: true}

// gate returns what stands in an entrance.
func (p *process) gate(e entrance) *gate {
	return callers.New(callers.Options[*apikeys.Door]{
		File: p.trust.file, Listener: e.at, Anonymous: p.trust.anonymous(&e, p.settings.Behind(e.at.String())), Closed: p.trust.closed(), Needs: e.needs,
		Refusals: p.refusals, Door: gateDoors[e.at], Now: p.stack.wall.Now,
		Open: func(caller string, r headgate.Rights) *apikeys.Door { return p.doors.openRawFor(caller, e.front, r) },
	})
}

// anonymous returns what those may do who show no credential, where no file says it. Behind
// says that a load balancer stands before the entrance.
func (t *trust) anonymous(e *entrance, behind bool) headgate.Rights {
	switch {
	case e.at == callers.Ops:
		return headgate.Rights{Explain: true}
	case t.file != nil:
		return headgate.Rights{}
	}
	open := t.settings.OpensLimits(e.addr, behind)
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
			problems.Answer(w, callers.KeepOut(w, err), err.Error())
			return
		}
		explain.Handler(door).ServeHTTP(w, r)
	})
}

// gatewayCallers returns what lets gateways in that are no peers, over HTTP and over gRPC; nil
// without a file that could name them.
func (p *process) gatewayCallers() (asks func(*http.Request) error, calls func(context.Context) error) {
	if p.trust.file == nil {
		return nil, nil
	}
	in := p.gate(entrance{at: callers.Auth, front: "auth", needs: headgate.Rights{Check: true}})
	asks = func(r *http.Request) error {
		_, err := in.Gateway(r)
		return err
	}
	calls = func(ctx context.Context) error {
		_, err := rls.Enter(ctx, in)
		return err
	}
	return asks, calls
}
