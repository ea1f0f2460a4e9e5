package telemetry

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// Stats serves what is counted as lines of a name, with its labels, and a value: for who
// looks by hand, as at the address of that name of envoyproxy/ratelimit. Histograms are
// left out.
func (m *Metrics) Stats() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		families, err := m.registry.Gather()
		if err != nil && len(families) == 0 {
			http.Error(w, "metrics cannot be read", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if metric.GetHistogram() == nil && metric.GetSummary() == nil {
					value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + metric.GetUntyped().GetValue()
					fmt.Fprintf(w, "%s%s: %s\n", family.GetName(), labelText(metric.GetLabel()), strconv.FormatFloat(value, 'f', -1, 64))
				}
			}
		}
	})
}

// labelText returns labels in braces; "" for none.
func labelText(labels []*dto.LabelPair) string {
	texts := make([]string, len(labels))
	for i, l := range labels {
		texts[i] = fmt.Sprintf("%s=%q", l.GetName(), l.GetValue())
	}
	if len(texts) == 0 {
		return ""
	}
	return "{" + strings.Join(texts, ",") + "}"
}
