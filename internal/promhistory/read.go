package promhistory

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/view"
)

const (
	// MaxSteps bounds the steps of one reading.
	MaxSteps = 1000
	// minStep is the shortest step: it holds several scrapes, of which a rate is made.
	minStep = 5 * time.Minute
	// MaxRange bounds the time of one reading.
	MaxRange = 400 * 24 * time.Hour
)

// Question asks what nodes have answered from one instant to another.
type Question struct {
	From, To time.Time
	// Most is how many steps there are at most, from 1 to MaxSteps.
	Most int
	// Node is the label instance of one node, without its port; "": all nodes.
	Node string
}

// Read asks for a range of up to MaxRange. Its errors are of type *Trouble.
func (r *Reader) Read(ctx context.Context, q Question) (view.PrometheusTimeline, error) {
	at := stepsOf(q)
	line := view.PrometheusTimeline{Step: at.step, Points: []view.PrometheusPoint{}}
	if at.count == 0 {
		return line, nil
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
	case <-ctx.Done():
		return line, trouble(Busy, "Prometheus is being asked by others")
	}
	selected := selector(r.options.Layer, q.Node)
	answers := make([][]series, len(questions))
	for i, ask := range questions {
		body, err := r.ask(ctx, ask.query(selected, at.step), at)
		if err != nil {
			return line, err
		}
		if answers[i], err = parse(body, ask.label, at); err != nil {
			return line, trouble(Away, "the answer of Prometheus cannot be read: %v; hint: is --prometheus-url the address of a Prometheus?", err)
		}
		if i == 0 && len(answers[i]) == 0 {
			return line, nothing(selected)
		}
	}
	points, err := join(answers, at)
	if err != nil {
		return line, trouble(Away, "the answer of Prometheus cannot be read: %v; hint: do all nodes have the version of this one?", err)
	}
	line.Points = append(line.Points, points...)
	return line, nil
}

func nothing(selected string) *Trouble {
	return trouble(Unknown, "Prometheus has no headgate_requests_total%s of this time; hint: does it scrape /metrics of the nodes, and does it keep it for so long (--storage.tsdb.retention.time)?", selected)
}

// questions are what is asked of each reading, the requests first.
var questions = []struct {
	label string
	query func(selected string, step int64) string
}{
	{"outcome", func(selected string, step int64) string {
		return fmt.Sprintf("sum by (outcome) (rate(headgate_requests_total%s[%ds]))", selected, step)
	}},
	{"", quantile(0.5)},
	{"", quantile(0.99)},
}

// quantile asks for one of decisions, of native histograms where Prometheus keeps these.
func quantile(of float64) func(selected string, step int64) string {
	return func(selected string, step int64) string {
		const name = "headgate_decision_duration_seconds"
		return fmt.Sprintf("histogram_quantile(%[1]g, sum(rate(%[2]s%[3]s[%[4]ds]))) or histogram_quantile(%[1]g, sum by (le) (rate(%[2]s_bucket%[3]s[%[4]ds])))", of, name, selected, step)
	}
}

// selector chooses the series of a layer and of a node, by the label instance with any port; "" stands for all.
func selector(layer, node string) string {
	var labels []string
	if layer != "" {
		labels = append(labels, "layer="+strconv.Quote(layer))
	}
	if node != "" {
		labels = append(labels, "instance=~"+strconv.Quote(regexp.QuoteMeta(node)+"(:[0-9]+)?"))
	}
	if labels == nil {
		return ""
	}
	return "{" + strings.Join(labels, ",") + "}"
}

// stepsOf returns the ends of the steps of a question: the last is its end, and each is over.
func stepsOf(q Question) asked {
	whole := int64(q.To.Sub(q.From) / time.Second)
	step := max(int64(minStep/time.Second), (whole+int64(q.Most)-1)/int64(q.Most))
	step = (step + 59) / 60 * 60
	count := whole / step
	return asked{first: q.To.Unix() - step*max(0, count-1), step: step, count: int(count)}
}

// join makes points of answers to questions. A step in which no request was counted by anybody is none.
func join(answers [][]series, at asked) ([]view.PrometheusPoint, error) {
	points := make([]*view.PrometheusPoint, at.count)
	for _, s := range answers[0] {
		for i, rate := range s.values {
			if math.IsNaN(rate) || math.IsInf(rate, 0) || rate < 0 {
				return nil, fmt.Errorf("%g requests per second", rate)
			}
			if points[i] == nil {
				points[i] = &view.PrometheusPoint{At: time.Unix(at.first+at.step*int64(i-1), 0).UTC()}
			}
			to := outcome(&points[i].Rates, s.label)
			if to == nil {
				return nil, fmt.Errorf("requests have the outcome %.40q", s.label)
			}
			*to = rate
		}
	}
	var list []view.PrometheusPoint
	for i, p := range points {
		if p == nil {
			continue
		}
		for n, to := range []*float64{&p.P50, &p.P99} {
			if len(answers[n+1]) == 0 {
				continue
			}
			// A quantile of no decision is NaN.
			if took := answers[n+1][0].values[i]; took >= 0 && !math.IsInf(took, 0) {
				*to = took
			}
		}
		list = append(list, *p)
	}
	return list, nil
}

// outcome is where requests of an outcome are counted, nil for one that there is not.
func outcome(r *view.Requests, name string) *float64 {
	switch name {
	case "allowed":
		return &r.Allowed
	case "denied":
		return &r.Denied
	case "degraded_allowed":
		return &r.DegradedAllowed
	case "degraded_denied":
		return &r.DegradedDenied
	case "unmatched":
		return &r.Unmatched
	case "unknown_domain":
		return &r.UnknownDomain
	default:
		return nil
	}
}
