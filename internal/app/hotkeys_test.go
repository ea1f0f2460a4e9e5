package app

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/testserver"
)

// A node that was never asked for a key denies it because another node has told of it,
// by way of Redis.
func TestD5NodesTellEachOtherOfDenials(t *testing.T) {
	redis := testserver.Redis(t, testserver.RedisConfig{})
	const rules = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 10, algorithm: fixed_window, time_zone: UTC}}]"
	settings := config.Settings{Store: config.NewStoreURL(redis.URL()), DenialMemory: 1000}
	a, b := openTestStack(t, settings), openTestStack(t, settings)
	first, other := limiterOver(t, a, rules), limiterOver(t, b, rules)
	exchange := func() {
		for _, k := range []*stack{a, b} {
			if _, err := k.denials.Exchange(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	exchange() // from here on they know the clock of Redis
	keys := 0
	await(t, func() error {
		keys++ // another one, in case that the last denial has ended before it was told
		key := fmt.Sprint("k:", keys)
		if passed := ask(t, first, key, 50); passed != 10 {
			return fmt.Errorf("%d of 10 hits pass", passed)
		}
		exchange()
		if passed := ask(t, other, key, 1); passed != 0 {
			t.Fatal("a hit beyond the limit passes on the other node")
		}
		if told, heard := a.denials.Stats().Told, b.denials.Stats().Heard; told == 0 || heard == 0 {
			return fmt.Errorf("told %d, heard %d", told, heard)
		}
		return nil
	})
}
