package telemetry

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func TestCellsAreSearchedRightly(t *testing.T) {
	if n := len(cellEdges) + 1; n > maxCells {
		t.Fatalf("%d cells, room for %d", n, maxCells)
	}
	rapid.Check(t, func(t *rapid.T) {
		took := rapid.OneOf(
			rapid.Int64Range(-5, math.MaxInt64),
			rapid.Int64Range(0, 100_000),
			rapid.Custom(func(t *rapid.T) int64 {
				return rapid.SampledFrom(cellEdges).Draw(t, "edge") + rapid.Int64Range(-1, 1).Draw(t, "beside")
			}),
			rapid.Custom(func(t *rapid.T) int64 { return 1 << rapid.IntRange(0, 62).Draw(t, "power") }),
		).Draw(t, "took")
		want := slices.IndexFunc(cellEdges, func(edge int64) bool { return took <= edge })
		if want < 0 {
			want = len(cellEdges)
		}
		if got := cellOf(time.Duration(took)); got != want {
			t.Fatalf("%d ns is in cell %d, want %d", took, got, want)
		}
	})
}

// The duration histogram is that of the Prometheus library, bucket by bucket, classic and
// native, for whatever is observed.
func TestK1HistogramIsThatOfTheLibrary(t *testing.T) {
	m := New(Build{}, Options{})
	reference := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "reference", Buckets: seconds(decisionBounds[:]),
		NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: nativeZeroUpTo,
	})
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		took := time.Duration(math.Exp(random.Float64() * math.Log(60e9)))
		m.stripes.all[random.IntN(len(m.stripes.all))].time(took, false)
		reference.Observe(took.Seconds())
	}
	for _, edge := range decisionBounds {
		m.stripes.all[0].time(edge, false)
		reference.Observe(edge.Seconds())
	}
	got, want := histogramOf(t, m, "headgate_decision_duration_seconds"), new(dto.Metric)
	if err := reference.Write(want); err != nil {
		t.Fatal(err)
	}
	if math.Abs(got.GetSampleSum()-want.Histogram.GetSampleSum()) > 1e-6*want.Histogram.GetSampleSum() {
		t.Errorf("sum %v, want %v", got.GetSampleSum(), want.Histogram.GetSampleSum())
	}
	got.SampleSum, want.Histogram.SampleSum, want.Histogram.CreatedTimestamp = nil, nil, nil
	if !proto.Equal(got, want.Histogram) {
		t.Errorf("got\n%v\nwant\n%v", got, want.Histogram)
	}
}

// histogramOf gathers the histogram of a name that has one series.
func histogramOf(t *testing.T, m *Metrics, name string) *dto.Histogram {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].Histogram
		}
	}
	t.Fatalf("no %s", name)
	return nil
}

func TestQuantiles(t *testing.T) {
	var none cellCounts
	if q := none.quantile(0.99); q != 0 {
		t.Errorf("of nothing: %v", q)
	}
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Int64Range(100, 50e9), 1, 200).Draw(t, "all")
		q := rapid.Float64Range(0.01, 1).Draw(t, "q")
		var counts cellCounts
		for _, ns := range all {
			counts[cellOf(time.Duration(ns))]++
		}
		slices.Sort(all)
		exact := float64(all[int(math.Ceil(q*float64(len(all))))-1]) / 1e9
		if got := counts.quantile(q); got < exact/1.1 || got > exact*1.1 {
			t.Fatalf("quantile %v of %v is %v, want %v", q, all, got, exact)
		}
	})
}
