package respfront

import (
	"math"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/store"
)

// HEADGATE.CHECK asks the rules in force about one descriptor:
//
//	HEADGATE.CHECK domain key=value [key=value ...] [HITS hits] [ID id]
//
// The answer is of the same five numbers as that of CL.THROTTLE, of the limit that speaks for
// the request. What is not known is -1: where no rule applies, that is all but the first.

const errCheckUsage = refusal("ERR usage: HEADGATE.CHECK domain key=value [key=value ...] [HITS hits] [ID id]")

// configured is a HEADGATE.CHECK that was read.
type configured struct {
	domain  string
	entries []descriptor.Entry
	hits    int64
	op      store.Op
	id      string
}

// readConfigured reads the arguments, the name included; entries are in dst's array.
func readConfigured(args []string, dst []descriptor.Entry) (c configured, err error) {
	if len(args) < 3 {
		return c, errCheckUsage
	}
	c.domain, c.entries, c.hits = args[1], dst, 1
	for rest := args[2:]; len(rest) > 0; {
		if key, value, found := strings.Cut(rest[0], "="); found {
			c.entries, rest = append(c.entries, descriptor.Entry{Key: key, Value: value}), rest[1:]
			continue
		}
		if len(rest) < 2 {
			return c, refuse("ERR %.40q is no entry; %s", rest[0], errCheckUsage[4:])
		}
		if err := c.option(rest[0], rest[1]); err != nil {
			return c, err
		}
		rest = rest[2:]
	}
	return c, c.validate()
}

func (c *configured) option(name, value string) (err error) {
	switch strings.ToUpper(name) {
	case "HITS":
		if c.hits, err = strconv.ParseInt(value, 10, 64); err != nil || c.hits == math.MinInt64 {
			return refuse("ERR HITS %.40q is no whole number; hint: 0 looks and charges nothing, and one below 0 gives back", value)
		}
		if c.hits < 0 {
			c.hits, c.op = -c.hits, store.Refund
		}
	case "ID":
		if c.id = value; value == "" {
			return refusal("ERR ID is empty; hint: a name of this check that no other one has")
		}
	default:
		return refuse("ERR %.40q is neither an entry nor HITS nor ID; %s", name, errCheckUsage[4:])
	}
	return nil
}

// validate refuses what the limiter would refuse, so that no check spoils those that are
// decided with it.
func (c *configured) validate() error {
	switch {
	case c.domain == "":
		return refusal("ERR the domain is empty")
	case len(c.entries) == 0:
		return errCheckUsage
	case c.domain == headgate.CallerDomain:
		return refuse("ERR the domain %s is that of CL.THROTTLE; hint: ask by that command", c.domain)
	case c.hits > limit.MaxQuota:
		return refuse("ERR HITS is more than %d", int64(limit.MaxQuota))
	}
	if err := descriptor.Validate(c.entries); err != nil {
		return refuse("ERR %v", err)
	}
	if err := repeat.ValidateID(c.id); err != nil {
		return refuse("ERR %v", err)
	}
	return nil
}

// answerConfigured appends the answer of the rules.
func (r *reply) answerConfigured(resp *headgate.Response, s *httpanswer.Summary) {
	most, left, retry, reset := int64(-1), int64(-1), int64(-1), int64(-1)
	if s.Verdict != nil && s.Verdict.Limit != nil {
		most = max(s.Verdict.Decision.Limit, 0)
	}
	if s.Counted {
		left, reset = s.Remaining, httpanswer.CeilSeconds(s.Reset())
	}
	if !resp.Allowed && !s.Never() {
		retry = s.RetryAfterSeconds()
	}
	r.five(resp.Allowed, most, left, retry, reset)
}
