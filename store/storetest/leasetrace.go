package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// testLeaseModel drives the store and the model with random takes and requests.
func testLeaseModel(t *testing.T, h Harness) {
	traces := 0
	rapid.Check(t, func(rt *rapid.T) {
		traces++
		tr := &trace{t: t, rt: rt, h: h, prefix: fmt.Sprintf("lease trace %d ", traces), specs: specs}
		tr.ops = []store.Op{store.Hit, store.Hit, store.Hit, store.Charge, store.Refund, store.Reset}
		tr.begin(3)
		for range rapid.IntRange(1, 30).Draw(rt, "batches") {
			tr.endLeases()
			tr.moveClock()
			if rapid.IntRange(0, 2).Draw(rt, "takes") == 0 {
				tr.batch()
			} else {
				tr.leaseBatch()
			}
		}
	})
}

// endLeases has both forget what has ended, before the clock may step back.
func (tr *trace) endLeases() {
	var requests []store.LeaseRequest
	for i, limits := range tr.keys {
		for _, l := range limits {
			if l.Leasable() {
				requests = append(requests, store.LeaseRequest{Key: []byte(tr.key(i)), Limit: l})
				break
			}
		}
	}
	tr.compareLeases(requests)
}

func (tr *trace) leaseBatch() {
	requests := make([]store.LeaseRequest, rapid.IntRange(1, 4).Draw(tr.rt, "requests"))
	for i := range requests {
		requests[i] = tr.drawRequest()
	}
	// What peeks may be answered before the others.
	if at := slices.IndexFunc(requests, func(q store.LeaseRequest) bool { return !q.Limit.Leasable() }); at >= 0 {
		requests = requests[at : at+1]
	}
	tr.compareLeases(requests)
}

// drawRequest draws a request; ids come again.
func (tr *trace) drawRequest() store.LeaseRequest {
	t := tr.drawTake()
	id := rapid.IntRange(0, 7)
	hits := rapid.SampledFrom([]int64{0, 0, 1, 2, 5, 100, limit.MaxQuota})
	back := store.LeaseID{}
	if rapid.Bool().Draw(tr.rt, "returns") {
		back = leaseID(id.Draw(tr.rt, "return"))
	}
	return store.LeaseRequest{
		Key: t.Key, Limit: t.Limit,
		Return:     back,
		ReturnHits: hits.Draw(tr.rt, "return hits"),
		ID:         leaseID(id.Draw(tr.rt, "id")),
		Want:       max(t.Hits, hits.Draw(tr.rt, "want")),
		Share:      rapid.SampledFrom([]int64{0, 1, 1, 1, 2, 3, 20}).Draw(tr.rt, "share"),
		TTL: rapid.SampledFrom([]time.Duration{
			0, time.Microsecond, 5 * time.Millisecond, time.Second, time.Minute, 1000 * time.Hour,
		}).Draw(tr.rt, "ttl"),
	}
}

// compareLeases has the store and the model answer requests.
func (tr *trace) compareLeases(requests []store.LeaseRequest) {
	takes := make([]store.Take, len(requests))
	for i := range requests {
		takes[i] = store.Take{Key: requests[i].Key, Limit: requests[i].Limit}
	}
	tr.resetDead(takes)
	for i, g := range tr.h.lease(tr.t, requests...) {
		q := &requests[i]
		want := tr.model.lease(q)
		fmt.Fprintf(&tr.log, "at %d key=%s return=%d of %s want=%d id=%s share=%d ttl=%v %v => %+v\n",
			tr.now, q.Key, q.ReturnHits, q.Return, q.Want, q.ID, q.Share, q.TTL, describe(q.Limit), want)
		if g != want {
			tr.rt.Fatalf("after\n%sthe store says %+v", tr.log.String(), g)
		}
	}
}
