package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/telemetry"
)

// watchRefusals counts whom the doors turn away, and tells the log.
func (p *process) watchRefusals() {
	p.refusals = refusals.New(refusals.Options{Tell: func(n refusals.Notice) { tellRefusals(p.logger, n) }})
	p.tasks = append(p.tasks, p.refusals.Run)
	p.metrics.WatchRefusals(func() []telemetry.Refusals {
		counts := p.refusals.Counts()
		list := make([]telemetry.Refusals, len(counts))
		for i, c := range counts {
			list[i] = telemetry.Refusals{Door: c.Door.String(), Reason: c.Reason.String(), Total: c.Total}
		}
		return list
	})
}

// tellRefusals logs a notice. What happens every day without an attack is no warning.
func tellRefusals(logger *slog.Logger, n refusals.Notice) {
	level := slog.LevelWarn
	if n.Reason.Harmless() {
		level = slog.LevelInfo
	}
	attributes := []any{"door", n.Door.String(), "reason", n.Reason.String(), "count", n.Count, "networks", n.Networks, "last_from", n.Network}
	if n.Actor != "" {
		attributes = append(attributes, "actor", n.Actor)
	}
	logger.Log(context.Background(), level, "requests were refused because of who asks", attributes...)
}

// refusedClient counts a client of a gateway whose credential was refused.
func (p *process) refusedClient(reason identity.Reason, client netip.Addr) {
	p.refusals.RefusedFrom(refusals.Gateway, refusals.OfCredential(reason), client, "")
}

// refusedBy returns what counts the clients of the proxy whose credentials were refused;
// who tells where they are.
func (p *process) refusedBy(who *identity.Extractor) func(*http.Request, error) {
	return func(r *http.Request, err error) {
		var credential *identity.RefusedError
		because := refusals.NoToken
		switch {
		case errors.As(err, &credential):
			because = refusals.OfCredential(credential.Reason)
		case !errors.Is(err, httplimit.ErrUnidentified):
			return // a request that is malformed
		}
		p.refusals.RefusedFrom(refusals.Proxy, because, who.Client(r, new(identity.Identity)), "")
	}
}

// refusedHost returns what counts the requests for a host by whose name nobody should ask
// at a door.
func (p *process) refusedHost(d refusals.Door) func(*http.Request) {
	return func(r *http.Request) { p.refusals.Refused(d, refusals.OtherHost, r, "") }
}
