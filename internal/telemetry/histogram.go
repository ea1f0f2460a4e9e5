package telemetry

import (
	"cmp"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// histogram is a histogram that was counted elsewhere. It implements prometheus.Metric.
type histogram struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	bounds []float64
	counts []uint64 // between the bounds, and above the last one
	sum    float64
	native *nativeBuckets // nil: none
}

// bucketOf returns which bucket of a histogram counts v: the first whose bound is not below it,
// or the one above all bounds.
func bucketOf[T cmp.Ordered](bounds []T, v T) int {
	bucket := 0
	for bucket < len(bounds) && v > bounds[bucket] {
		bucket++
	}
	return bucket
}

// nativeBuckets are those of a native histogram of schema nativeSchema.
type nativeBuckets struct {
	zero   uint64
	counts map[int]uint64
}

// newHistogram returns a histogram with the label values that desc has.
func newHistogram(desc *prometheus.Desc, bounds []float64, counts []uint64, sum float64, values ...string) *histogram {
	return &histogram{desc: desc, labels: prometheus.MakeLabelPairs(desc, values), bounds: bounds, counts: counts, sum: sum}
}

// Desc implements prometheus.Metric.
func (h *histogram) Desc() *prometheus.Desc { return h.desc }

// Write implements prometheus.Metric.
func (h *histogram) Write(to *dto.Metric) error {
	out := &dto.Histogram{SampleSum: &h.sum}
	count := uint64(0)
	for i, n := range h.counts {
		count += n
		if i < len(h.bounds) {
			out.Bucket = append(out.Bucket, &dto.Bucket{UpperBound: &h.bounds[i], CumulativeCount: new(count)})
		}
	}
	out.SampleCount = &count
	if h.native != nil {
		h.native.write(out)
	}
	to.Histogram, to.Label = out, h.labels
	return nil
}

// write adds b to out. A span is a run of buckets that follow each other, its offset the
// distance from the end of the span before; deltas are from bucket to bucket.
func (b *nativeBuckets) write(out *dto.Histogram) {
	out.Schema, out.ZeroThreshold, out.ZeroCount = new(int32(nativeSchema)), new(nativeZeroUpTo), &b.zero
	next, last := 0, int64(0)
	for _, bucket := range slices.Sorted(maps.Keys(b.counts)) {
		if spans := len(out.PositiveSpan); spans > 0 && bucket == next {
			*out.PositiveSpan[spans-1].Length++
		} else {
			out.PositiveSpan = append(out.PositiveSpan, &dto.BucketSpan{Offset: new(int32(bucket - next)), Length: new(uint32(1))})
		}
		n := int64(b.counts[bucket])
		out.PositiveDelta = append(out.PositiveDelta, n-last)
		next, last = bucket+1, n
	}
}
