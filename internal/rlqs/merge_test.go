package rlqs

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

// What one message says twice of a bucket is added up, so that nothing is used for free.
func TestOneBucketTwiceInAMessage(t *testing.T) {
	service, _ := serve(t, Options{})
	s := &session{service: service, domain: "d"}
	first, again := usageOf("u", 2), usageOf("u", 3)
	first.TimeElapsed, again.TimeElapsed, again.NumRequestsDenied = durationpb.New(5*time.Second), durationpb.New(time.Second), 4
	got := s.read(reports("d", first, usageOf("v", 1), again))
	if len(got) != 2 {
		t.Fatalf("%d buckets, want 2", len(got))
	}
	for _, b := range got {
		want := usage{elapsed: 5 * time.Second, allowed: 5, denied: 4}
		if b.entries[0].Value == "v" {
			want = usage{allowed: 1}
		}
		if b.usage != want {
			t.Errorf("%s: %+v, want %+v", b.entries[0].Value, b.usage, want)
		}
	}
}
