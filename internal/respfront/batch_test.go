package respfront

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// TestBatchKeepsNothing: between two batches a connection holds neither a rule, nor a limit, nor
// what a command has said, and memory for no more checks than have come together.
func TestBatchKeepsNothing(t *testing.T) {
	var b batch
	for range 3 {
		for i := range 2 {
			if !b.takes(checks) {
				t.Fatal("there is no room")
			}
			at := b.next(checks)
			at.entries = append(at.entries[:0], descriptor.Entry{Key: "k", Value: "v"})
			b.add("d", headgate.Descriptor{Hits: 1, Limit: new(limit.Limit)}, "")
			b.responses[i] = headgate.Response{Allowed: true, Verdicts: append(b.responses[i].Verdicts, headgate.Verdict{Rule: new(rules.Rule), Limit: new(limit.Limit)})}
			if got := b.requests[i].Descriptors[0].Entries[0].Value; got != "v" {
				t.Fatal(got)
			}
		}
		if b.takes(throttles) || b.takes(alone) {
			t.Error("checks of another kind are taken")
		}
		b.clear()
		if len(b.slots) != 2 || len(b.responses) != 2 || len(b.requests) != 0 || b.kind != 0 {
			t.Errorf("%+v", b)
		}
		for i := range b.slots {
			if d := b.slots[i].descriptor[0]; d.Limit != nil || d.Entries != nil || b.slots[i].entries[0] != (descriptor.Entry{}) {
				t.Errorf("a check is kept: %+v", b.slots[i])
			}
			if r := b.responses[i]; r.Allowed || len(r.Verdicts) != 0 || r.Verdicts[:1][0] != (headgate.Verdict{}) {
				t.Errorf("an answer is kept: %+v", r)
			}
		}
	}
	for range maxBatch {
		b.next(checks)
		b.add("d", headgate.Descriptor{}, "")
	}
	if b.takes(checks) {
		t.Error("there is no bound")
	}
	if kindOf(checks, store.Refund, "") != alone || kindOf(throttles, store.Hit, "1") != alone || kindOf(throttles, store.Hit, "") != throttles {
		t.Error("kinds")
	}
}
