package topkeys

import (
	"strings"
	"sync"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/heavy"
	"github.com/headgate/headgate/internal/keyname"
)

// ruleKeys counts the keys of one rule.
type ruleKeys struct {
	id string

	mu struct {
		sync.Mutex
		// load is all that was counted, and fades: the rules with the most have
		// summaries.
		load float64
		// keys is nil while others have more to count.
		keys *counted
		// gone says that the rule is no longer in force.
		gone bool
	}
}

// counted is what a rule with summaries has.
type counted struct {
	total, denied heavy.Summary
	// minute is of the minute under way, last of the one before.
	minute, last sketch
}

func newCounted(perRule int) *counted {
	return &counted{total: heavy.Summary{Size: perRule}, denied: heavy.Summary{Size: perRule}}
}

// sample is a key that was seen, and how many decisions and denials it stands for.
type sample struct {
	hash          uint64
	domain        string
	entries       []descriptor.Entry
	total, denied float64
}

// add counts a sample, and returns how many keys had to make room.
func (c *counted) add(s *sample) (evicted uint64) {
	if s.total > 0 {
		c.minute.add(s.hash, s.total)
		evicted += count(&c.total, s, s.total)
	}
	if s.denied > 0 {
		evicted += count(&c.denied, s, s.denied)
	}
	return evicted
}

// count adds weight to the key of a sample, and names a key that has just entered.
func count(s *heavy.Summary, from *sample, weight float64) (evicted uint64) {
	full := s.Full()
	key, fresh := s.Add(from.hash, weight)
	if !fresh {
		return 0
	}
	if key.Domain != from.domain {
		key.Domain = strings.Clone(from.domain) // the request's memory is used again
	}
	var scratch [keyname.MaxText]byte
	key.Text = append(key.Text[:0], keyname.AppendText(scratch[:0], from.entries)...)
	if full {
		return 1
	}
	return 0
}

// differentKeys estimates the different keys of a minute: of the one under way or the one
// before, whichever has more.
func (c *counted) differentKeys() float64 { return max(c.minute.estimate(), c.last.estimate()) }

// nextMinute begins another minute.
func (c *counted) nextMinute() {
	c.minute, c.last = c.last, c.minute
	c.minute.reset()
}

// tracked is the number of keys.
func (c *counted) tracked() int64 { return int64(len(c.total.Slots) + len(c.denied.Slots)) }

// empty reports whether all keys are forgotten, and none was seen of late.
func (c *counted) empty() bool { return c.tracked() == 0 && c.differentKeys() == 0 }
