package subbucket

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// TestPeekSaysWhenTheFirstPartLetsPass: parts that are all used up have room again at
// different times. A peek tells of the first, wherever it stands.
func TestPeekSaysWhenTheFirstPartLetsPass(t *testing.T) {
	full := func(seconds int) store.Result {
		return store.Result{Decision: limit.Decision{RetryAfter: time.Duration(seconds) * time.Second}}
	}
	for _, parts := range [][]store.Result{
		{full(3), full(9), full(7)}, {full(9), full(3), full(7)}, {full(9), full(7), full(3)}, {full(3)},
	} {
		if allowed, after := joinPeeks(parts); allowed || after != 3*time.Second {
			t.Errorf("%v, %v, want a denial for 3 s", allowed, after)
		}
		free := append(parts, store.Result{Decision: limit.Decision{Allowed: true}})
		if allowed, after := joinPeeks(free); !allowed || after != 0 {
			t.Errorf("%v, %v, want that one part lets pass", allowed, after)
		}
	}
}
