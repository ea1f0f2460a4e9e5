package subbucket_test

import (
	"context"
	"fmt"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/subbucket"
)

func Example() {
	inner, err := memstore.New(memstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := subbucket.New(inner)
	defer s.Close()

	take := []store.Take{{
		Key:   []byte("all of example.com"),
		Limit: limit.Must(limit.PerHour(1000)),
		Hits:  1,
		Mode:  &store.Mode{SubBuckets: 16},
	}}
	var result [1]store.Result
	passed := 0
	for s.Take(context.Background(), take, result[:]); result[0].Allowed; s.Take(context.Background(), take, result[:]) {
		passed++
	}
	fmt.Println(passed, "of", result[0].Limit, "from", inner.Stats().Keys, "buckets")
	// Output: 1000 of 1000 from 16 buckets
}
