package redisstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

func TestCRC16(t *testing.T) {
	for text, want := range map[string]uint16{
		"123456789": 0x31C3,
		"":          0,
		"A":         0x58E5,
		"foo":       44950,
	} {
		if got := crc16(text); got != want {
			t.Errorf("crc16(%q) = %#x, want %#x", text, got, want)
		}
	}
}

// Every 128th of the slots has one tag, and what a tag's name is never changes:
// another one would make all buckets of running clusters forgotten.
func TestTags(t *testing.T) {
	var all []string
	for i, tag := range tags {
		if tag.text == "" || tag.slot != crc16(tag.text)%slotCount || int(tag.slot)*tagCount/slotCount != i {
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
	s := &Store{options: o, prefixes: prefixes(&o)}
	counts := map[int]int{}
	for i := range 20_000 {
		key := fmt.Appendf(nil, "key %d", i)
		name := s.Name(key)
		slot := testserver.KeySlot(name)
		tag := tagOf(hashOf(key))
		if slot != int(tags[tag].slot) {
			t.Fatalf("%q is in slot %d, its tag %d in %d", name, slot, tag, tags[tag].slot)
		}
		counts[tag]++
	}
	for tag := range tagCount {
		if n := counts[tag]; n < 80 || n > 240 {
			t.Errorf("tag %d has %d of 20000 keys", tag, n)
		}
	}
	alone := Options{Addr: "localhost:1", Prefix: "limits:"}
	s = &Store{options: alone, prefixes: prefixes(&alone)}
	if name, hash := s.Name([]byte("key")), hashOf([]byte("key")); name != "limits:"+string(hash[:]) {
		t.Errorf("without a cluster the name is %q", name)
	}
}
