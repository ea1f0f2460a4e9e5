package spread_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/spread"
)

// Limits per second have a store of their own, and a request that one of two
// limits denies is charged to neither.
func ExampleNew() {
	quick, err := memstore.New(memstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	rest, err := memstore.New(memstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := spread.New(func(t *store.Take) int {
		if t.Limit.Period == time.Second {
			return 0
		}
		return 1
	}, quick, rest)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	perSecond, perDay := limit.Must(limit.PerSecond(100)), limit.Must(limit.PerDay(1))
	request := []store.Take{
		{Key: []byte("alice, second"), Limit: perSecond, Hits: 1, Group: 1},
		{Key: []byte("alice, day"), Limit: perDay, Hits: 1, Group: 1},
	}
	results := make([]store.Result, len(request))
	for range 2 {
		s.Take(context.Background(), request, results)
		fmt.Println(results[0].Allowed, results[1].Allowed, results[1].Remaining)
	}
	// Output:
	// true true 0
	// true false 0
}
