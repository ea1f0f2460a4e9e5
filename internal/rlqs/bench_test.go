package rlqs

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/store/memstore"
)

// BenchmarkReport is a report of so many buckets, each of which has used half of its promise,
// from the message to the answer, over a store in memory.
func BenchmarkReport(b *testing.B) {
	for _, buckets := range []int{1, 100, 10_000} {
		b.Run(strconv.Itoa(buckets), func(b *testing.B) {
			counts, err := memstore.New(memstore.Options{})
			if err != nil {
				b.Fatal(err)
			}
			l, err := headgate.New(headgate.Options{Store: counts, Rules: testrules.Load(b, rule("{unit: year, requests_per_unit: 1000000000, algorithm: fixed_window}"))})
			if err != nil {
				b.Fatal(err)
			}
			service := New(Options{Decider: l.Door(headgate.DoorOptions{Name: "rlqs", Rights: headgate.Rights{Check: true, GiveBack: true, Explain: true}}), Store: counts})
			s := &session{service: service, leases: map[string]*lease{}}
			m := &rlqspb.RateLimitQuotaUsageReports{Domain: "d"}
			for i := range buckets {
				m.BucketQuotaUsages = append(m.BucketQuotaUsages, &rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage{
					BucketId: &rlqspb.BucketId{Bucket: map[string]string{"user": fmt.Sprint("user-", i)}}, TimeElapsed: durationpb.New(5 * time.Second), NumRequestsAllowed: 50,
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				told, err := s.report(b.Context(), m)
				if err != nil {
					b.Fatal(err)
				}
				response(told)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*buckets), "ns/bucket")
		})
	}
}
