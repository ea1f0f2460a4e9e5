package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// What two nodes let pass by their shares while Redis cannot be reached is charged once it is back:
// the whole limit is then used up, and no hit of it is given out twice.
//
//promise:reconciled-exactly
func TestE1WhatPassedLocallyIsChargedAfterwards(t *testing.T) {
	t.Parallel()
	const nodes, quota = 2, 90
	redis := testserver.Redis(t, testserver.RedisConfig{})
	link := testserver.NewProxy(t, redis.Addr)
	args := []string{"--rules", writeRules(t, failureRules), "--store", "redis://" + link.Addr + "/0", "--store-budget", "10s", "--nodes", fmt.Sprint(nodes)}
	var fleet [nodes]*node
	for i := range fleet {
		fleet[i] = startNode(t, args...)
		if fleet[i].passed(t, descriptorOf("falls", "x"), 10, false) != 10 {
			t.Fatal("a hit below the limit is denied")
		}
	}
	link.Set(testserver.Toxics{Refuse: true})
	link.Reset()
	local := 0
	for _, n := range fleet {
		local += n.passed(t, descriptorOf("falls", "x"), 20, true)
	}
	if local != 2*20 {
		t.Fatalf("%d of 40 hits below the shares pass", local)
	}
	link.Heal()
	for _, n := range fleet {
		if err := n.process.Poll(func() error {
			if passed, waiting := n.metric(t, "headgate_reconcile_hits_total"), n.metric(t, "headgate_reconcile_keys"); passed != 20 || waiting != 0 {
				return fmt.Errorf("%v hits are noted and %v keys wait", passed, waiting)
			}
			if out := n.process.Output(); !strings.Contains(out, "keys=1 hits=20") {
				return fmt.Errorf("the log does not tell what was charged:\n%s", out)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	left := 0
	for range quota {
		a, err := fleet[0].check(descriptorOf("falls", "x"))
		if err != nil || a.Degraded != "" {
			t.Fatalf("%+v, %v", a, err)
		}
		if a.Allowed {
			left++
		}
	}
	if left != quota-nodes*10-local {
		t.Errorf("%d pass after the outage, of %d of which %d were used before and %d in it", left, quota, nodes*10, local)
	}
}
