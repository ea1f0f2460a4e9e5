package testserver

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestClusterFailover(t *testing.T) {
	t.Parallel()
	cases := map[string]ClusterConfig{
		"plain":             {},
		"password over TLS": {Password: "secret", TLS: true},
	}
	for name, cfg := range cases {
		t.Run(name, func(t *testing.T) {
			c := Cluster(t, cfg)
			primaries := c.Primaries()
			for i, primary := range primaries {
				if primary != c.Nodes[i] {
					t.Errorf("shard %d has another primary than node %d", i, i)
				}
			}
			killed := c.KillPrimary(1)
			promoted := c.WaitForPrimary(c.FirstSlot(1), killed)
			if promoted != c.Nodes[4] {
				t.Errorf("%s was promoted, not the replica %s", promoted.Addr, c.Nodes[4].Addr)
			}
			c.Restart(killed)
			if n := c.Failovers(); n < 1 {
				t.Error("the failover is not seen")
			}
			if err := killed.isPrimary(); err == nil {
				t.Error("the restarted node is a primary again")
			}
			if again := c.Primaries(); again[0] != primaries[0] || again[1] != promoted || again[2] != primaries[2] {
				t.Error("the primaries of the other shards have changed")
			}
		})
	}
}

func TestClusterSlotMoves(t *testing.T) {
	t.Parallel()
	c := Cluster(t, ClusterConfig{NoReplicas: true, Password: "secret"})
	const slot = 5061 // of "bar"
	if got := KeySlot("x{bar}y"); got != slot {
		t.Fatalf("the slot of a tag is %d, want %d", got, slot)
	}
	from := c.SlotOwner(slot)
	if from != c.Nodes[0] {
		t.Fatalf("slot %d belongs to %s", slot, from.Addr)
	}
	to := c.Nodes[2]
	for i := range 5 {
		from.MustDo("SET", fmt.Sprintf("%d{bar}", i), "1")
	}
	move := c.MoveSlot(slot, from, to)
	move.Begin()
	if n := move.MoveKeys(3); n != 3 {
		t.Errorf("moved %d keys, want 3", n)
	}
	moved := 0
	for i := range 5 {
		_, err := from.Do("GET", fmt.Sprintf("%d{bar}", i))
		var reply ReplyError
		if errors.As(err, &reply) && strings.HasPrefix(string(reply), "ASK") {
			moved++
		}
	}
	if moved != 3 {
		t.Errorf("the old primary answers ASK for %d keys, want 3", moved)
	}
	if n := move.MoveKeys(3); n != 2 {
		t.Errorf("moved %d keys, want 2", n)
	}
	move.Finish()
	if owner := c.SlotOwner(slot); owner != to {
		t.Errorf("slot %d belongs to %s, want %s", slot, owner.Addr, to.Addr)
	}
	c.MigrateSlot(slot, to, from)
	if owner := c.SlotOwner(slot); owner != from {
		t.Errorf("slot %d belongs to %s, want %s", slot, owner.Addr, from.Addr)
	}
	if got := from.MustDo("GET", "4{bar}"); got != "1" {
		t.Errorf("a key that was moved twice holds %v", got)
	}
}
