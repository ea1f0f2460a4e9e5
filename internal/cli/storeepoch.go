package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/rules"
)

type storeEpochCmd struct {
	Store   config.StoreURL `required:"" placeholder:"URL" help:"The home of the regions: redis://, unix:// or redis+sentinel://; rediss for TLS."`
	Vouch   bool            `env:"-" help:"Say that the store has forgotten nothing, so that regions lease from it at once."`
	Timeout time.Duration   `default:"2s" env:"-" help:"Longest wait for the store."`
}

// Help implements kong.HelpProvider.
func (*storeEpochCmd) Help() string {
	return `Examples:

  headgate store epoch --store rediss://home.internal:6380/0
  headgate store epoch --store rediss://home.internal:6380/0 --vouch

An epoch of a store begins when it is asked for the first time, when its server was
started anew, and when another server has taken its place: it may have forgotten what it
has lent. Rules with regions: leased lease from it when the epoch is older than what
their limits remember; until then each region has its reserve. With --vouch they lease at
once. Do so where the store was empty because it is new, or where you know that nothing was lost:
what it has forgotten can pass twice.`
}

// Run shows the epoch, and vouches for it.
func (c *storeEpochCmd) Run(std *stdio) error {
	const lends = "a store of kind %s lends nothing; hint: redis://host:6379/0"
	redis, err := openRedis(c.Store, c.Timeout, fmt.Sprintf(lends, "memory"), fmt.Sprintf(lends, "memcached"))
	if err != nil {
		return &codeError{exitUsage, err}
	}
	defer redis.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*c.Timeout)
	defer cancel()
	if c.Vouch {
		if err := redis.Vouch(ctx); err != nil {
			return err
		}
		_, err := fmt.Fprintln(std.out, "regions lease from this store at once")
		return err
	}
	e, err := redis.Epoch(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "epoch %016x, %s\n", e.ID, epochText(e.Age))
	return err
}

// longAgo is the age from which on every limit is leased.
const longAgo = 2 * 366 * 24 * time.Hour

// epochText says how old an epoch is, and what that means.
func epochText(age time.Duration) string {
	if age >= longAgo {
		return "vouched for or older than any limit: all limits are leased"
	}
	return fmt.Sprintf("%s old: limits that remember for longer are not leased yet", rules.DurationText(age.Truncate(time.Second)))
}
