package regional

import (
	"time"

	"github.com/headgate/headgate/store"
)

// Counts is what has happened to the takes of a Store, or to those of one rule, since New.
// Hits are conserved:
//
//	Granted == Used + Returned + Lost + Held + UnderWay
type Counts struct {
	// Buckets is of how many buckets the node knows rights.
	Buckets int64
	// Granted counts the hits that the home has lent: Used those that passed, Returned those
	// that it took back, Lost those that nobody could use (their lease had ended, the machine
	// was suspended, or the home did not confirm a return); Held are those that may still pass,
	// UnderWay those that are being returned.
	Granted, Used, Returned, Lost, Held, UnderWay int64
	// Unsure counts hits that were lent and not used, because the home may have forgotten
	// something meanwhile.
	Unsure int64
	// Leased counts takes that were decided by rights, Reserved those that the reserve of the
	// region was asked for, and Denied those of them that it denied.
	Leased, Reserved, Denied uint64
	// Asked counts what the home was asked for, Failed what it did not answer.
	Asked, Failed uint64
	// Crowded counts takes for which there was no room to hold rights.
	Crowded uint64
}

// Excess is by how many hits more have passed, or may, than were lent. It is measured, and
// promised to be 0: what a lease lets pass and what was lent are counted at different places.
func (c *Counts) Excess() int64 {
	return max(c.Used+c.Returned+c.Lost+c.Held+c.UnderWay-c.Granted, 0)
}

// Stats is what a Store counts, and what it knows of the home.
type Stats struct {
	Counts
	// Partings counts how often the wall clock and the monotonic clock parted and all rights
	// were dropped.
	Partings uint64
	// Epochs counts the epochs of the home that have begun while this node knew another one.
	Epochs uint64
	// Connected says that the last question to the home was answered, Heard how long ago an
	// answer came, RoundTrip how long the last took; 0 where none has come yet.
	Connected        bool
	Heard, RoundTrip time.Duration
	// Known says that the home has answered at least once, and Unanswered counts the questions
	// about its epoch that it did not answer.
	Known      bool
	Unanswered uint64
	// Reason is why the last question was not answered: that about the epoch, or else, where the
	// home is Connected, all of those for leases that were asked together. Hint is what may help. Both are
	// "" if it was, and neither has an address or a secret.
	Reason store.Reason
	Hint   string
	// EpochAge is how old the epoch of the home is: limits whose fence is longer are not leased
	// yet.
	EpochAge time.Duration
	// Renewals counts how long questions for leases took, those that were not answered among
	// them.
	Renewals store.DurationCounts
}

// returned books a return.
func (c *Counts) returned(a *Answer) {
	hits := a.Request.ReturnHits
	c.UnderWay -= hits
	if a.Grant.Err == nil && a.Grant.Returned {
		c.Returned += hits
		return
	}
	c.Lost += hits
}

// add adds what else was counted.
func (c *Counts) add(o *Counts) {
	c.Buckets += o.Buckets
	c.Granted += o.Granted
	c.Used += o.Used
	c.Returned += o.Returned
	c.Lost += o.Lost
	c.Held += o.Held
	c.UnderWay += o.UnderWay
	c.Unsure += o.Unsure
	c.Leased += o.Leased
	c.Reserved += o.Reserved
	c.Denied += o.Denied
	c.Asked += o.Asked
	c.Failed += o.Failed
	c.Crowded += o.Crowded
}

// addHeld adds what b holds at now.
func (c *Counts) addHeld(b *bucket, now time.Duration) {
	c.Buckets++
	c.Held += b.Held(now)
	c.Lost += b.lost
}

// Stats adds up what the shards hold, one after the other, each under its lock.
func (s *Store) Stats() (total Stats) {
	now := s.read()
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		total.add(&sh.rest.Counts)
		for _, r := range sh.rows {
			total.add(&r.Counts)
		}
		for _, b := range sh.buckets {
			total.addHeld(b, now)
		}
		total.Partings += sh.partings
		sh.mu.Unlock()
	}
	total.Renewals = s.courier.trips.Counts()
	s.courier.mu.Lock()
	defer s.courier.mu.Unlock()
	h := &s.courier.known
	total.Epochs, total.RoundTrip, total.Unanswered, total.Known = h.begun, h.trip, h.failures, h.Known()
	total.Reason, total.Hint = s.courier.refusal()
	if h.Known() {
		total.Connected = !h.Failing()
		total.Heard, total.EpochAge = now-h.heard, h.epoch.Age+now-h.heard
	}
	return total
}
