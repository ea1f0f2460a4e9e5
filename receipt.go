package headgate

import (
	"slices"

	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
)

// Receipt says which buckets a charge has charged, so that a refund of it reaches no other one: by
// the time of the refund, other rules may be in force, or others may be switched off. The zero
// value is that of nothing charged.
type Receipt struct {
	buckets [][4]byte
}

func (r *Receipt) empty() { r.buckets = r.buckets[:0] }

func (r *Receipt) add(key []byte) { r.buckets = append(r.buckets, reservation.Bucket(key)) }

func (r *Receipt) has(key []byte) bool { return slices.Contains(r.buckets, reservation.Bucket(key)) }

// keepToReceipts makes refunds that no receipt of their requests covers refunds of nothing. Keys
// are bound.
func (p *plan) keepToReceipts(requests []Request, responses []Response) {
	for i := range requests {
		receipt, s := requests[i].Receipt, p.spans[i]
		if receipt == nil {
			continue
		}
		for t := s.takes.from; t < s.takes.to; t++ {
			if take := &p.takes[t]; take.Op == store.Refund && !receipt.has(take.Key) {
				take.Hits = 0
			}
		}
		for j := s.verdicts.from; j < s.verdicts.to; j++ {
			if t := p.verdictTake[j]; t >= 0 && p.takes[t].Op == store.Refund {
				v := &responses[i].Verdicts[j-s.verdicts.from]
				v.Hits = min(v.Hits, p.takes[t].Hits)
			}
		}
	}
}

// fillReceipts notes in the receipts of charges what the store has charged.
func (p *plan) fillReceipts(requests []Request) {
	for i := range requests {
		receipt, s := requests[i].Receipt, p.spans[i].takes
		if receipt == nil || !requests[i].charges() {
			continue
		}
		receipt.empty()
		for t := s.from; t < s.to; t++ {
			if take, r := &p.takes[t], &p.results[t]; take.Op == store.Charge && r.Err == nil && !r.Skipped {
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
