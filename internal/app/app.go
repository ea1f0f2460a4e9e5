// Package app wires the parts of a serving headgate together and runs them: it
// is the only place that knows them all.
//
// The order of an end is the order in which callers can follow: first the
// process says that it is not ready, and goes on serving for a while; then it
// takes no new connections and finishes what is under way, within a deadline;
// then the operators' address goes; then what was leased is given back, the node
// leaves the fleet, and last the store is closed. Each step has a time by which the
// next begins, whatever a disk, a server or the reader of the log does.
package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/explain"
	"github.com/headgate/headgate/internal/hostguard"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/httpcheck"
	"github.com/headgate/headgate/internal/openapi"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/internal/systemd"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/turns"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules/lint"
)

// Options is what Run and RunProxy need beside the settings.
type Options struct {
	// Build says which headgate this is.
	Build telemetry.Build
	// Logger gets all messages; required.
	Logger *slog.Logger
	// LinesDropped returns how many lines of logs were dropped since the start; nil is
	// none.
	LinesDropped func() uint64
	// Out gets the addresses once they serve, as a line of the log where that is JSON,
	// and hints; required.
	Out io.Writer
	// Manager is told when the process serves and when it is about to end; the zero
	// value is nobody.
	Manager systemd.Manager
	// Reload asks for a reload of the rules by every value; nil never does.
	Reload <-chan os.Signal

	// Getenv returns variables of the environment that are not Headgate's own, those of Amazon's
	// tools and of OpenTelemetry; nil knows none.
	Getenv func(string) string

	// Explain adds to an error about rules that names flags what stands for those flags where
	// the process was started otherwise; nil adds nothing.
	Explain func(error) error

	// Settings are what operators are shown of those that the process was started with; the
	// zero value shows none.
	Settings view.Settings

	// signKey is the file of the key that signs what others are given of the database; ""
	// gives nothing.
	signKey string
	// startWithoutRules serves though the first rules are bad.
	startWithoutRules bool
	// fronts are those whose callers pass requests on themselves; none for a proxy.
	fronts []lint.Front
}

// Run decides for callers by settings s until ctx ends, then stops gently. It
// returns nil when everything under way was finished.
func Run(ctx context.Context, s config.Serve, o Options) error {
	does, err := s.Does()
	if err != nil {
		return err
	}
	k, err := readKeys(&s.Settings, s.AdminHashKey)
	if err != nil {
		return err
	}
	o.signKey, o.fronts, o.startWithoutRules = s.SnapshotSignKey, servedFronts(&s, does), s.StartWithoutRules
	p, err := newProcess(&s.Settings, does, k, o)
	if err != nil {
		return err
	}
	defer p.leave()
	if err := p.trustCallers(&s.Callers); err != nil {
		return err
	}
	if err := p.loadRules(); err != nil {
		return err
	}
	p.tellKeys()
	p.doors.answersLast, p.doors.turns = s.CheckIDTime, p.turns()
	fronts, err := p.fronts(&s)
	if err != nil {
		return err
	}
	p.tellOpen(openFronts(&s, fronts))
	if s.Hints {
		p.onServing = append(p.onServing, func(listeners map[string]net.Listener) {
			printHints(o.Out, listeners["http"], p.limiter.Rules(), hinted{s.OpensLimits(s.HTTPAddr, s.Behind("http")), s.Secures("http", s.HTTPAddr)})
			printAuthHint(o.Out, listeners["auth"], s.Secures("auth", s.AuthAddr))
			printDashboardHint(o.Out, listeners["dashboard"], s.DashboardTLSCert != "", s.AdminTokens)
		})
	}
	return p.run(ctx, fronts)
}

// deciders returns the ways in of those who ask for decisions.
func (p *process) deciders(s *config.Serve) ([]front, error) {
	answer, err := answerOptions(&s.Settings)
	if err != nil {
		return nil, err
	}
	envoy, err := p.rlsOptions(s, answer)
	if err != nil {
		return nil, err
	}
	// Over HTTP a rule that fails closed is 503, never to be mistaken for a
	// limit that is used up, whatever Envoy is told.
	inJSON := envoy
	inJSON.ClosedAsError = true
	checking := p.gate(entrance{callers.HTTP, s.HTTPAddr, "http", headgate.Rights{Check: true}})
	reserving := p.gate(entrance{callers.HTTP, s.HTTPAddr, "http", headgate.Rights{Reserve: true}})
	explains := p.gate(entrance{callers.HTTP, s.HTTPAddr, "http", headgate.Rights{Explain: true}})
	checks, err := httpcheck.NewHandler(httpcheck.Options{
		Checker:       p.doors.openRaw("http", headgate.Rights{}),
		Admit:         overHTTP(checking),
		AdmitReserver: overHTTP(reserving),
		Answer:        answer,
		JSON:          rls.NewJSONHandler(inJSON, overJSON(p.gate(entrance{callers.HTTP, s.HTTPAddr, "json", decides}))),
		Explain:       explained(func() *gate { return explains }),
		Parts:         []openapi.Part{rls.DescribeJSON(), explain.Describe()},
		Ready:         p.health.ready,
		Now:           p.stack.wall.Now,
		Turns:         p.doors.turns,
	})
	if err != nil {
		return nil, err
	}
	auth, err := p.gateways(s, answer, &envoy)
	if err != nil {
		return nil, err
	}
	redis, err := p.redis(s, answer)
	if err != nil {
		return nil, err
	}
	p.assigns(s, &envoy)
	if err := p.runBeside(&s.DualRun, &envoy); err != nil {
		return nil, err
	}
	p.streams(s, &envoy)
	api := newHTTPServer(closing(&p.health.draining, p.guardHost(s, checks)), p.logger)
	if api.TLSConfig, err = p.callersTLS(&s.CallersTLS, "http", s.HTTPAddr); err != nil {
		return nil, err
	}
	overTLS, err := p.callersTLS(&s.CallersTLS, "grpc", s.GRPCAddr)
	if err != nil {
		return nil, err
	}
	return append([]front{
		{name: "http", addr: s.HTTPAddr, start: p.quick("http", api)},
		{name: "grpc", addr: s.GRPCAddr, start: p.startGRPC(envoy, overTLS)},
	}, append(auth, redis...)...), nil
}

// turns returns the places of requests that wait for the store; nil where none does.
func (p *process) turns() *turns.Turns {
	if p.settings.Store.Scheme() == "memory" {
		return nil
	}
	places := turns.New(p.settings.StoreBudget)
	p.metrics.WatchTurns(func() telemetry.Turns { return telemetry.Turns(places.Stats()) })
	return places
}

// guardHost keeps web pages out where whoever is on this machine is taken for its operator: a
// page in the operator's browser could reach the address by a name of its own.
func (p *process) guardHost(s *config.Serve, next http.Handler) http.Handler {
	network, _, err := config.ListenAddress(s.HTTPAddr)
	if err != nil || network == "unix" || s.CallerLimits != nil || !s.OpensLimits(s.HTTPAddr, s.Behind("http")) {
		return next
	}
	return hostguard.Handler(s.HTTPAddr, s.AllowedHosts, next, p.refusedHost(refusals.HTTP))
}

// rlsOptions returns how Envoy is answered.
func (p *process) rlsOptions(s *config.Serve, answer httpanswer.Options) (rls.Options, error) {
	o := rls.Options{
		Checker:         p.doors.openRaw("grpc", headgate.Rights{}),
		Turns:           p.doors.turns,
		Admit:           rls.Callers(p.gate(entrance{callers.GRPC, s.GRPCAddr, "grpc", decides})),
		Compat:          s.EnvoyCompat(),
		ClosedAsError:   s.RLSClosed == "error",
		DynamicMetadata: s.RLSMetadata,
		DrainTimeout:    s.DrainTimeout,
		Own:             s.GRPCTransport == "h2" && !s.Beside(), // the old service answers call by call
		Now:             p.stack.wall.Now,
		OnUnfit:         p.metrics.Unfit,

		MaxConnectionAge:      s.GRPCMaxConnectionAge,
		MaxConnectionAgeGrace: s.GRPCMaxConnectionAgeGrace,

		OnPanic: func(cause any, stack []byte) {
			p.observer.Panicked(fmt.Errorf("while answering Envoy: %v\n%s", cause, stack))
		},
	}
	if s.StartWithoutRules && p.health.rules != nil {
		o.Unanswered = p.unanswered
	}
	if s.DrainTimeout == 0 {
		o.DrainTimeout = -1 // at once
	}
	var err error
	switch s.RLSHeaders {
	case "envoy":
		o.Headers = rls.HeaderNames{Limit: s.RLSLimitHeader, Remaining: s.RLSRemainingHeader, Reset: s.RLSResetHeader}
	case "http":
		o.Answer, err = httpanswer.New(answer)
	}
	o.Jitter = answer.Jitter
	return o, err
}
