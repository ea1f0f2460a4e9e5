package audit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headgate/headgate/internal/sleep"
)

// againEvery is how often records are sent again that a broker has refused.
const againEvery = 500 * time.Millisecond

// refused are the records that a broker has refused, and those that came after them. It
// is kafka's, under its lock.
type refused struct {
	records []*kgo.Record
	// behind are those that came after the first refusal. They stay apart, because the
	// client may still have records that came before them and are refused in their turn.
	behind []*kgo.Record
	// gone says that the topic was deleted and made again: the client sends nothing more
	// to one that it remembers under another ID.
	gone bool
}

// len returns how many records wait to be sent again.
func (r *refused) len() int { return len(r.records) + len(r.behind) }

// passes reports whether an error may pass while its record waits: the broker has refused
// the record, did not write it, and may take it later. Of the others the client has
// waited as long as it should, or the record itself is at fault.
func passes(err error) bool {
	refusal, ok := errors.AsType[*kerr.Error](err)
	if !ok {
		return false
	}
	switch refusal.Code {
	case kerr.MessageTooLarge.Code, kerr.RecordListTooLarge.Code, kerr.InvalidRecord.Code, kerr.InvalidTimestamp.Code, kerr.CorruptMessage.Code,
		kerr.UnsupportedForMessageFormat.Code, kerr.UnsupportedCompressionType.Code, kerr.DuplicateSequenceNumber.Code,
		kerr.RequestTimedOut.Code, kerr.NotEnoughReplicasAfterAppend.Code: // the last two may have been written
		return false
	}
	return true
}

// refuses reports whether an error is a broker's word on a record that it does not take, and
// not that the topic or its leader cannot be reached for now.
func refuses(err error) bool {
	refusal, ok := errors.AsType[*kerr.Error](err)
	return ok && !refusal.Retriable
}

// hold keeps a record that was refused until it is sent again, and reports whether it
// does: one whose time is over has failed.
func (s *kafka) hold(r *kgo.Record, err error) bool {
	if !passes(err) || time.Since(r.Timestamp) >= s.timeout {
		return false
	}
	s.refused.records = append(s.refused.records, r)
	s.refused.gone = s.refused.gone || errors.Is(err, kerr.UnknownTopicID)
	return true
}

// sendAgain sends what was refused again, now and then, until ctx ends.
func (s *kafka) sendAgain(ctx context.Context) {
	for range sleep.Every(ctx, againEvery) {
		s.again(time.Now())
	}
}

// again fails the records whose time is over, and sends the others once the client has
// none any more: else they would overtake each other.
func (s *kafka) again(now time.Time) {
	s.mu.Lock()
	s.expireLocked(now)
	due, gone := s.refused.len() > 0 && s.waiting == s.refused.len(), s.refused.gone
	s.mu.Unlock()
	if !due {
		return
	}
	if gone {
		// It waits for the client's own look at the topic; what comes meanwhile is held.
		s.client.PurgeTopicsFromProducing(s.topic)
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	records := append(s.refused.records, s.refused.behind...)
	s.refused = refused{}
	s.mu.Unlock()
	for _, r := range records {
		s.client.TryProduce(context.Background(), r, s.produced)
	}
}

// expireLocked fails the refused records whose time is over.
func (s *kafka) expireLocked(now time.Time) {
	if s.abandoned {
		return // Close has counted them
	}
	s.refused.records = s.unexpiredLocked(s.refused.records, now)
	s.refused.behind = s.unexpiredLocked(s.refused.behind, now)
}

// unexpiredLocked returns the records that still have time, in their place, and fails the
// others.
func (s *kafka) unexpiredLocked(records []*kgo.Record, now time.Time) []*kgo.Record {
	return slices.DeleteFunc(records, func(r *kgo.Record) bool {
		expired := now.Sub(r.Timestamp) >= s.timeout
		if expired {
			s.waiting--
			s.bytes -= len(r.Value)
			s.failed++
		}
		return expired
	})
}
