package testserver

import (
	"math"
	"strings"
	"testing"
)

func TestPrometheusAnswersQueries(t *testing.T) {
	s := Prometheus(t, "global: {scrape_interval: 1s}\n")
	for _, tt := range []struct {
		expr string
		want float64
	}{
		{`1 + 1`, 2},
		{`vector(3)`, 3},
		{`-1 / 0`, math.Inf(-1)},
	} {
		samples, err := s.Query(tt.expr)
		if err != nil || len(samples) != 1 || samples[0].Value != tt.want {
			t.Errorf("Query(%q) = %v, %v; want one sample of %v", tt.expr, samples, err, tt.want)
		}
	}
	if samples, err := s.Query(`absent(nothing{of="this"})`); err != nil || len(samples) != 1 || samples[0].Labels["of"] != "this" {
		t.Errorf("labels: got %v, %v", samples, err)
	}
	if samples, err := s.Query(`nothing`); err != nil || len(samples) != 0 {
		t.Errorf("a metric that does not exist: got %v, %v; want nothing", samples, err)
	}
	if _, err := s.Query(`rate(`); err == nil || !strings.Contains(err.Error(), "parse error") {
		t.Errorf("a wrong expression: got error %v, want a parse error", err)
	}
}
