package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/redisstore"
)

type storeCmd struct {
	Key    storeKeyCmd    `cmd:"" help:"Show the keys of a descriptor in Redis, and what they hold."`
	Doctor storeDoctorCmd `cmd:"" help:"Try a store step by step, and say what is wrong and what to change."`
	Epoch  storeEpochCmd  `cmd:"" help:"Show since when a store that lends to regions has forgotten nothing."`
}

type storeKeyCmd struct {
	ruleFlags     `embed:""`
	standingFlags `embed:""`
	Rules         string          `required:"" placeholder:"FILE_OR_DIR" help:"The rules by which the descriptor is limited."`
	Store         config.StoreURL `required:"" placeholder:"URL" help:"The Redis: redis://, unix://, redis+sentinel:// or redis+cluster://; rediss for TLS."`
	Domain        string          `required:"" env:"-" help:"The domain of the rules."`
	Descriptor    string          `arg:"" help:"The descriptor: 'key:value,key:value'."`
	Timeout       time.Duration   `default:"2s" env:"-" help:"Longest wait for Redis."`
}

// Help implements kong.HelpProvider.
func (*storeKeyCmd) Help() string {
	return `Example:

  headgate store key --store redis://localhost:6379/0 --rules rules/ --domain api_platform --identity identity.yaml 'api_key:abc123'

The URL is that of headgate serve, with the prefix and all else in its query. It reads
only. The names of keys are hashes: they do not tell the descriptor.`
}

// Run looks the buckets up.
func (c *storeKeyCmd) Run(std *stdio) error {
	set, _, err := c.load(std, c.Rules)
	if err != nil {
		return err
	}
	entries, err := c.parse(c.Descriptor)
	if err != nil {
		return err
	}
	domain := set.Domain(c.Domain)
	if domain == nil {
		return &codeError{exitUsage, fmt.Errorf("the rules have no domain %q; hint: they have %q", c.Domain, set.Domains())}
	}
	now := time.Now()
	tenants, err := c.snapshot(domain, [][]descriptor.Entry{entries}, func() time.Time { return now })
	if err != nil {
		return err
	}
	list, err := limitsOf(set, tenants, c.Domain, entries, now)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(std.out, "no rule limits this descriptor")
		return err
	}
	redis, err := openRedis(c.Store, c.Timeout, "the buckets of a memory store are inside its process; hint: `headgate check --hits 0` asks it",
		"this command shows keys of Redis; hint: `headgate check --hits 0` asks what is left, whatever the store")
	if err != nil {
		return &codeError{exitUsage, err}
	}
	defer redis.Close()
	for i := range list {
		if i == 0 || list[i].Rule != list[i-1].Rule {
			fmt.Fprintf(std.out, "%s:%d: %s\n", list[i].Rule.File, list[i].Rule.Line, list[i].Rule.ID)
		}
		if err := showBucket(std.out, redis, &list[i]); err != nil {
			return &codeError{exitUsage, err}
		}
	}
	return nil
}

// openRedis opens the Redis of --store, which is waited for that long. memory and memcached say why a store of that kind
// is none.
func openRedis(at config.StoreURL, timeout time.Duration, memory, memcached string) (*redisstore.Store, error) {
	if err := at.Check(); err != nil {
		return nil, err
	}
	switch at.Scheme() {
	case "memory":
		return nil, errors.New("--store: " + memory)
	case "memcached":
		return nil, errors.New("--store: " + memcached)
	}
	o, err := redisstore.ParseURL(at.Reveal())
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	o.Budget, o.DialTimeout = timeout, timeout
	return redisstore.New(o)
}

// showBucket shows the bucket of a limit.
func showBucket(w io.Writer, redis *redisstore.Store, a *asked) error {
	if a.key == nil {
		fmt.Fprintln(w, "  unlimited: nothing is stored")
		return nil
	}
	if note := whereElse(&a.Rule.Mode); note != "" {
		fmt.Fprintf(w, "  note   %s\n", note)
	}
	bucket, err := redis.Lookup(context.Background(), a.key)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "  limit  %s\n", a.limitText())
	if a.Tenant > 0 {
		fmt.Fprintf(w, "  source %s\n", sourceText(a))
	}
	fmt.Fprintf(w, "  key    %s\n", quoted(bucket.Name))
	if !bucket.Found {
		fmt.Fprintln(w, "  state  not there: as if unused")
		return nil
	}
	fmt.Fprintf(w, "  value  %s, kept for %v\n", quoted(bucket.Value), bucket.TTL)
	fmt.Fprintf(w, "  state  %s\n", stateText(a.Limit, bucket.State, bucket.Now))
	return nil
}

// sourceText says where the limit of a tenant comes from.
func sourceText(a *asked) string {
	if a.Tier == "" {
		return a.Source.String()
	}
	return fmt.Sprintf("%v, tier %s", a.Source, a.Tier)
}

// stateText says what a state means to a limit at now.
func stateText(l *limit.Limit, s limit.State, now limit.Micros) string {
	_, d := limit.Decide(l, s, now, 0)
	switch {
	case l.Algorithm == limit.Concurrency:
		used, first := slotsIn(s, now)
		if used == 0 {
			return fmt.Sprintf("none of %d slots in use", d.Limit)
		}
		return fmt.Sprintf("%d of %d slots in use; if not renewed the first ends in %v, the last in %v",
			used, d.Limit, min(first, d.ResetAfter), d.ResetAfter)
	case l.Algorithm != limit.Ban:
		return fmt.Sprintf("%d of %d remaining, reset in %v", d.Remaining, d.Limit, d.ResetAfter)
	case d.Remaining == 0:
		return fmt.Sprintf("banned for another %v", d.ResetAfter)
	case d.ResetAfter == 0:
		return fmt.Sprintf("none of %d denials counted", d.Limit)
	default:
		return fmt.Sprintf("%d of %d denials counted, forgotten in %v", d.Limit-d.Remaining, d.Limit, d.ResetAfter)
	}
}

// slotsIn returns how many slots of a state of concurrency count at now, and when
// the first of them ends.
func slotsIn(s limit.State, now limit.Micros) (used int, first time.Duration) {
	if s.Kind != 1+uint8(limit.Concurrency) {
		return 0, 0
	}
	for i := len(s.Wide) - 2; i >= 0 && s.Wide[i] > int64(now); i -= 2 {
		used, first = used+1, time.Duration(s.Wide[i]-int64(now))*time.Microsecond
	}
	return used, first
}

// whereElse says what the bucket in Redis does not show of a rule; "" when it
// shows all.
func whereElse(m *rules.Mode) string {
	switch {
	case m.Regions == rules.RegionsLeased:
		return "regions: leased: in the home this is the part that it lends, and what nodes have leased counts as used; reserves are in the stores of regions, with keys of their own"
	case m.Regions == rules.RegionsShared:
		return "regions: shared: this is what the store of one region knows; of the others it has what it was told"
	case m.Consistency == rules.Local:
		return "consistency: local: each node counts alone, and nothing is stored"
	case m.Leases():
		return "what nodes have leased counts as used"
	case m.Consistency == rules.Synced:
		return "what nodes have let pass since their last exchange is not in it"
	case m.SubBuckets > 0:
		return fmt.Sprintf("spread over %d sub-buckets, with keys of their own", m.SubBuckets)
	}
	return ""
}

// quoted writes bytes as redis-cli reads and writes them.
func quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(text) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
