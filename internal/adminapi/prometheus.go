package adminapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/headgate/headgate/internal/promhistory"
	"github.com/headgate/headgate/internal/view"
)

// prometheus is what a Prometheus tells of nodes.
type prometheus struct{ *Options }

// History asks a Prometheus what nodes have answered. Its errors are of type *promhistory.Trouble.
type History interface {
	Read(ctx context.Context, q promhistory.Question) (view.PrometheusTimeline, error)
}

func (p prometheus) routes() []route {
	return []route{
		{
			method: http.MethodGet, path: "prometheus", scope: Read, local: true, serve: p.shown, id: "getPrometheus", summary: "Show whether this process can ask a Prometheus",
			answers: []reply{ok(view.Prometheus{}, "Whether one is configured.")},
		},
		{
			method: http.MethodGet, path: "prometheus/timeline", scope: Read, local: true, serve: p.timeline, id: "getPrometheusTimeline", summary: "Show what all nodes have answered over time, as Prometheus tells it",
			about: "This process asks the Prometheus of --prometheus-url, for at most 400 days, and has 20 seconds for it. Steps are of whole minutes, five at least, and the last ends where the range ends.",
			query: append([]parameter{{"node", "Only of the node whose label instance is this name, or the name and a port; left out, of all.", schema{"type": "string"}}},
				spanParameters(promhistory.MaxSteps)...),
			answers: []reply{ok(view.PrometheusTimeline{}, "The steps of which something is known."),
				errorReply(http.StatusNotFound, "No Prometheus is configured, or it knows nothing of the time or of the node."),
				errorReply(http.StatusBadGateway, "Prometheus is away, refuses the question, or gives an answer that cannot be read.")},
		},
	}
}

// shown answers whether there is a Prometheus to ask.
func (p prometheus) shown(*call) (*answer, error) {
	return jsonAnswer(http.StatusOK, view.Prometheus{Configured: p.Watch.Prometheus != nil})
}

// timeline answers what Prometheus tells.
func (p prometheus) timeline(c *call) (*answer, error) {
	q := c.span(promhistory.MaxSteps)
	if c.bad != nil {
		return nil, c.bad
	}
	if q.To.Sub(q.From) > promhistory.MaxRange {
		return nil, badField(http.StatusBadRequest, "from", "more than 400 days before to")
	}
	if p.Watch.Prometheus == nil {
		return nil, fail(http.StatusNotFound, "no Prometheus is configured; hint: --prometheus-url URL")
	}
	line, err := p.Watch.Prometheus.Read(c.request.Context(), promhistory.Question(q))
	if err != nil {
		return nil, unread(err)
	}
	return jsonAnswer(http.StatusOK, line)
}

// unread is the problem of a reading that has failed.
func unread(err error) error {
	t, ok := errors.AsType[*promhistory.Trouble](err)
	if !ok {
		return err
	}
	switch t.Kind {
	case promhistory.Busy:
		return later(retryAfter, "%v", t)
	case promhistory.Unknown:
		return fail(http.StatusNotFound, "%v", t)
	default:
		return fail(http.StatusBadGateway, "%v", t)
	}
}
