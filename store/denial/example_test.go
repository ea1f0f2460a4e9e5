package denial_test

import (
	"context"
	"fmt"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/memstore"
)

func Example() {
	inner, err := memstore.New(memstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := denial.New(inner, denial.Options{})
	defer s.Close()

	one := []store.Take{{Key: []byte("user 42"), Limit: limit.Must(limit.PerHour(1)), Hits: 1}}
	var result [1]store.Result
	for range 5 {
		s.Take(context.Background(), one, result[:])
		fmt.Println(result[0].Allowed)
	}
	fmt.Println(s.Stats().Answered, "answered from memory")
	// Output:
	// true
	// false
	// false
	// false
	// false
	// 3 answered from memory
}
