package redisstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// Every 128th of the slots has one tag, and what a tag's name is never changes:
// another one would make all buckets of running clusters forgotten.
func TestTags(t *testing.T) {
	var all []string
	for i, tag := range tags {
		if tag.text == "" || tag.hashSlot != conn.HashSlot(tag.text) || int(tag.hashSlot)*tagCount/conn.HashSlots != i {
			t.Errorf("tag %d is %+v", i, tag)
		}
		all = append(all, tag.text)
	}
	sum := sha256.Sum256([]byte(strings.Join(all, " ")))
	if got := hex.EncodeToString(sum[:8]); got != "c8e15e3d62da8459" {
		t.Errorf("the tags are others than they were: %s", got)
	}
}

// The slot of every name is that of its tag, whatever bytes the hash holds.
func TestNames(t *testing.T) {
	o := Options{Cluster: []string{"localhost:1"}, Prefix: "limits:"}
	s := &Store{caller: caller{options: o, prefixes: prefixes(&o)}}
	counts := map[int]int{}
	for i := range 20_000 {
		key := fmt.Appendf(nil, "key %d", i)
		name := s.Name(key)
		slot := testserver.KeySlot(name)
		tag := tagOf(hashOf(key))
		if slot != int(tags[tag].hashSlot) {
			t.Fatalf("%q is in slot %d, its tag %d in %d", name, slot, tag, tags[tag].hashSlot)
		}
		counts[tag]++
	}
	for tag := range tagCount {
		if n := counts[tag]; n < 80 || n > 240 {
			t.Errorf("tag %d has %d of 20000 keys", tag, n)
		}
	}
	alone := Options{Addr: "localhost:1", Prefix: "limits:"}
	s = &Store{caller: caller{options: alone, prefixes: prefixes(&alone)}}
	if name, hash := s.Name([]byte("key")), hashOf([]byte("key")); name != "limits:"+string(hash[:]) {
		t.Errorf("without a cluster the name is %q", name)
	}
}
