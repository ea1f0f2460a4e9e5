package headgate

import (
	"slices"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
)

// Receipt says which buckets a charge has charged, and when, so that a refund of it gives back no
// hits but those: by the time of the refund, other rules may be in force, others may be switched
// off, and windows may be over. The zero value is that of nothing charged. It is for one call at a
// time.
type Receipt struct {
	at      limit.Micros // just before the charge
	buckets [][4]byte
}

func (r *Receipt) begin(now limit.Micros) { r.at, r.buckets = now, r.buckets[:0] }

func (r *Receipt) add(key []byte) { r.buckets = append(r.buckets, reservation.Bucket(key)) }

// outstanding returns how many of the hits of take, which is a refund, can still be in its bucket.
func (r *Receipt) outstanding(take *store.Take, now limit.Micros) int64 {
	if !slices.Contains(r.buckets, reservation.Bucket(take.Key)) {
		return 0
	}
	return take.Limit.Outstanding(r.at, now, take.Hits)
}

// keepToReceipts lets refunds give back no more than the receipts of their requests say, and begins
// the receipts of charges. Keys are bound.
func (p *plan) keepToReceipts(requests []Request, responses []Response) {
	for i := range requests {
		if receipt := requests[i].Receipt; receipt != nil {
			now := limit.MicrosOf(p.clock())
			p.keepTo(receipt, now, &p.spans[i], responses[i].Verdicts)
			if requests[i].charges() {
				receipt.begin(now)
			}
		}
	}
}

// keepTo keeps the refunds of one request to its receipt.
func (p *plan) keepTo(r *Receipt, now limit.Micros, s *parts, verdicts []Verdict) {
	for t := s.takes.from; t < s.takes.to; t++ {
		if take := &p.takes[t]; take.Op == store.Refund {
			take.Hits = r.outstanding(take, now)
		}
	}
	for i := range verdicts {
		if t := p.verdictTake[s.verdicts.from+i]; t >= 0 && p.takes[t].Op == store.Refund {
			verdicts[i].Hits = min(verdicts[i].Hits, p.takes[t].Hits)
		}
	}
}

// fillReceipts notes in the receipts of charges what the store has charged.
func (p *plan) fillReceipts(requests []Request) {
	for i := range requests {
		receipt := requests[i].Receipt
		if receipt == nil || !requests[i].charges() {
			continue
		}
		for t := p.spans[i].takes.from; t < p.spans[i].takes.to; t++ {
			if take, r := &p.takes[t], &p.results[t]; take.Op == store.Charge && take.Hits > 0 && r.Err == nil && !r.Skipped {
				receipt.add(take.Key)
			}
		}
	}
}

// charges reports whether a descriptor of r is one of a charge.
func (r *Request) charges() bool {
	for i := range r.Descriptors {
		if r.Descriptors[i].Op == store.Charge {
			return true
		}
	}
	return false
}
