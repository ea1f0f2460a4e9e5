package metricpush

import "go.opentelemetry.io/otel/sdk/metric/metricdata"

// batches divides metrics so that none has more than most points: a metric with more is divided
// too, because each of its points stands for itself.
func batches(metrics []metricdata.Metrics, most int) (list [][]metricdata.Metrics) {
	var batch []metricdata.Metrics
	room := most
	for _, m := range metrics {
		for {
			first, rest, n := cut(m, room)
			if n > 0 {
				batch, room = append(batch, first), room-n
			}
			if rest == nil {
				break
			}
			list, batch, room = append(list, batch), nil, most
			m = *rest
		}
	}
	if batch != nil {
		list = append(list, batch)
	}
	return list
}

// cut returns m with at most so many of its points, how many these are, and m with the rest; nil
// where there is none.
func cut(m metricdata.Metrics, most int) (first metricdata.Metrics, rest *metricdata.Metrics, n int) {
	first, other := m, m
	total := 0
	switch data := m.Data.(type) {
	case metricdata.Gauge[float64]:
		head, tail := data, data
		head.DataPoints, tail.DataPoints, n = divide(data.DataPoints, most)
		first.Data, other.Data, total = head, tail, len(data.DataPoints)
	case metricdata.Sum[float64]:
		head, tail := data, data
		head.DataPoints, tail.DataPoints, n = divide(data.DataPoints, most)
		first.Data, other.Data, total = head, tail, len(data.DataPoints)
	case metricdata.Histogram[float64]:
		head, tail := data, data
		head.DataPoints, tail.DataPoints, n = divide(data.DataPoints, most)
		first.Data, other.Data, total = head, tail, len(data.DataPoints)
	case metricdata.ExponentialHistogram[float64]:
		head, tail := data, data
		head.DataPoints, tail.DataPoints, n = divide(data.DataPoints, most)
		first.Data, other.Data, total = head, tail, len(data.DataPoints)
	case metricdata.Summary:
		head, tail := data, data
		head.DataPoints, tail.DataPoints, n = divide(data.DataPoints, most)
		first.Data, other.Data, total = head, tail, len(data.DataPoints)
	}
	if n < total {
		rest = &other
	}
	return first, rest, n
}

func divide[T any](points []T, most int) (head, tail []T, n int) {
	n = min(max(most, 0), len(points))
	return points[:n], points[n:], n
}
