package topkeys

import (
	"strings"
	"sync"

	"github.com/headgate/headgate/descriptor"
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
	total, denied summary
	// minute is of the minute under way, last of the one before.
	minute, last sketch
}

func newCounted(perRule int) *counted {
	return &counted{total: summary{size: perRule}, denied: summary{size: perRule}}
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
		evicted += c.total.count(s, s.total)
	}
	if s.denied > 0 {
		evicted += c.denied.count(s, s.denied)
	}
	return evicted
}

// count adds weight to the key of a sample, and names a key that has just entered.
func (s *summary) count(from *sample, weight float64) (evicted uint64) {
	full := s.full()
	key, fresh := s.add(from.hash, weight)
	if !fresh {
		return 0
	}
	if key.domain != from.domain {
		key.domain = strings.Clone(from.domain) // the request's memory is used again
	}
	var scratch [keyname.MaxText]byte
	key.text = append(key.text[:0], keyname.AppendText(scratch[:0], from.entries)...)
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
func (c *counted) tracked() int64 { return int64(len(c.total.slots) + len(c.denied.slots)) }

// empty reports whether all keys are forgotten, and none was seen of late.
func (c *counted) empty() bool { return c.tracked() == 0 && c.differentKeys() == 0 }
