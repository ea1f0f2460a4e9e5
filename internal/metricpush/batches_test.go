package metricpush

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"pgregory.net/rapid"
)

// TestBatches: whatever there is, each point is in one batch, in order, and no batch is too large.
func TestBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 9).Draw(t, "most")
		var all []metricdata.Metrics
		var want []string
		for i := range rapid.IntRange(0, 6).Draw(t, "metrics") {
			n := rapid.IntRange(0, 20).Draw(t, "points")
			name := fmt.Sprint("m", i)
			m := metricdata.Metrics{Name: name}
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				m.Data = metricdata.Gauge[float64]{DataPoints: numbered(n)}
			case 1:
				m.Data = metricdata.Sum[float64]{IsMonotonic: true, DataPoints: numbered(n)}
			case 2:
				data := metricdata.Histogram[float64]{}
				for p := range n {
					data.DataPoints = append(data.DataPoints, metricdata.HistogramDataPoint[float64]{Sum: float64(p)})
				}
				m.Data = data
			case 3:
				data := metricdata.ExponentialHistogram[float64]{}
				for p := range n {
					data.DataPoints = append(data.DataPoints, metricdata.ExponentialHistogramDataPoint[float64]{Sum: float64(p)})
				}
				m.Data = data
			case 4:
				data := metricdata.Summary{}
				for p := range n {
					data.DataPoints = append(data.DataPoints, metricdata.SummaryDataPoint{Sum: float64(p)})
				}
				m.Data = data
			}
			for p := range n {
				want = append(want, fmt.Sprint(name, " ", p))
			}
			all = append(all, m)
		}
		var got []string
		for _, batch := range batches(all, most) {
			points := 0
			for _, m := range batch {
				values := valuesOf(t, m)
				points += len(values)
				for _, v := range values {
					got = append(got, fmt.Sprint(m.Name, " ", v))
				}
			}
			if points == 0 || points > most {
				t.Fatalf("a batch of %d points, at most %d", points, most)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func numbered(n int) (list []metricdata.DataPoint[float64]) {
	for i := range n {
		list = append(list, metricdata.DataPoint[float64]{Value: float64(i)})
	}
	return list
}

func valuesOf(t *rapid.T, m metricdata.Metrics) (list []float64) {
	switch data := m.Data.(type) {
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			list = append(list, p.Value)
		}
	case metricdata.Sum[float64]:
		if !data.IsMonotonic {
			t.Fatal("what is said of all points is lost")
		}
		for _, p := range data.DataPoints {
			list = append(list, p.Value)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			list = append(list, p.Sum)
		}
	case metricdata.ExponentialHistogram[float64]:
		for _, p := range data.DataPoints {
			list = append(list, p.Sum)
		}
	case metricdata.Summary:
		for _, p := range data.DataPoints {
			list = append(list, p.Sum)
		}
	}
	return list
}
