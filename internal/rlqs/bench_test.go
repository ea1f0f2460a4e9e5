package rlqs

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// BenchmarkReport is a report of so many buckets, each of which has used half of its promise,
// from the message to the answer, over a store in memory.
func BenchmarkReport(b *testing.B) {
	for _, buckets := range []int{1, 100, 10_000} {
		b.Run(strconv.Itoa(buckets), func(b *testing.B) {
			counts, door := limited(b, 1_000_000_000)
			service := New(Options{Decider: door, Store: counts})
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
