package redisstore

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// sharedAt tells things called "a", "b", ... until the instants of ends, and returns what
// all share then, by its names.
func sharedAt(t *testing.T, s *Store, told ...store.Shared) (map[byte]string, store.Sharing) {
	t.Helper()
	sharing, err := s.Share(t.Context(), told)
	if err != nil {
		t.Fatal(err)
	}
	all := map[byte]string{}
	for _, one := range sharing.All {
		all[one.Name[0]] = fmt.Sprintf("%s until %d", one.Text, one.Until)
	}
	return all, sharing
}

func telling(name byte, until limit.Micros, text string) store.Shared {
	return store.Shared{Name: store.SharedName{name}, Until: until, Text: []byte(text)}
}

// What is told is there for all until it ends; of two of one name the one that lasts
// longer.
func testShare(t *testing.T, s *Store, now *atomic.Int64) {
	now.Store(1_000_000_000_000_000)
	at := func(after time.Duration) limit.Micros {
		return limit.Micros(now.Load()) + limit.Micros(after.Microseconds())
	}
	all, first := sharedAt(t, s)
	if len(all) != 0 || first.Salt == [16]byte{} || first.Now != at(0) {
		t.Errorf("at first all share %v, salt %x, at %d", all, first.Salt, first.Now)
	}
	long, short := at(2*time.Second), at(time.Second)
	all, second := sharedAt(t, s, telling('a', short, "one"), telling('b', long, "\x00\xff"), telling('a', long, "two"), telling('b', short, "three"), telling('c', at(0), "over"), telling('d', at(2*time.Hour), "far"))
	if want := (map[byte]string{'a': fmt.Sprint("two until ", long), 'b': fmt.Sprint("\x00\xff until ", long)}); fmt.Sprint(all) != fmt.Sprint(want) {
		t.Errorf("all share %q, want %q", all, want)
	}
	if second.Salt != first.Salt {
		t.Error("the salt has changed")
	}
	now.Add((2*time.Second - time.Microsecond).Microseconds())
	if all, _ := sharedAt(t, s); len(all) != 2 {
		t.Errorf("a moment before the end all share %q", all)
	}
	now.Add(1)
	if all, _ := sharedAt(t, s); len(all) != 0 {
		t.Errorf("at the end all share %q", all)
	}
	sharedAt(t, s, telling('a', at(30*time.Minute), "one"))
	now.Add(-(31 * time.Minute).Microseconds())
	if all, _ := sharedAt(t, s); len(all) != 0 {
		t.Errorf("after the clock was set back by half an hour all share %q", all)
	}
}

func TestShare(t *testing.T) {
	s, _ := openRedis(t)
	var now atomic.Int64
	s.clock = func() limit.Micros { return limit.Micros(now.Load()) }
	testShare(t, s, &now)
}

func TestShareInACluster(t *testing.T) {
	s := open(t, clusterOptions(testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})))
	var now atomic.Int64
	s.clock = func() limit.Micros { return limit.Micros(now.Load()) }
	testShare(t, s, &now)
}

// It does not grow beyond its bound, and goes by itself.
func TestShareIsBounded(t *testing.T) {
	s, _ := openRedis(t)
	_, before := sharedAt(t, s)
	told := make([]store.Shared, store.MaxShared)
	for round := range 3 {
		for i := range told {
			told[i] = store.Shared{
				Name: store.SharedName{byte(i), byte(i >> 8), byte(round)}, Until: before.Now + limit.Micros(time.Minute.Microseconds()),
				Text: bytes.Repeat([]byte{'x'}, store.MaxSharedText),
			}
		}
		if _, sharing := sharedAt(t, s, told...); len(sharing.All) != store.MaxShared {
			t.Errorf("round %d: all share %d things", round, len(sharing.All))
		}
	}
	if n := command(t, s, "STRLEN", conn.DefaultPrefix+sharedName); n != strconv.Itoa(16+store.MaxShared*(16+16+3+store.MaxSharedText)) {
		t.Errorf("it has %s bytes", n)
	}
	if ttl := command(t, s, "PTTL", conn.DefaultPrefix+sharedName); len(ttl) != 7 || ttl > "3600000" {
		t.Errorf("it lives for %s ms", ttl)
	}
}

func TestShareErrors(t *testing.T) {
	s, _ := openRedis(t)
	if _, err := s.Share(t.Context(), []store.Shared{{Text: make([]byte, store.MaxSharedText+1)}}); store.ReasonOf(err) != store.Misconfigured || !strings.HasPrefix(err.Error(), "share ") {
		t.Errorf("a long text: %v", err)
	}
	command(t, s, "LPUSH", conn.DefaultPrefix+sharedName, "x")
	if _, err := s.Share(t.Context(), nil); store.ReasonOf(err) != store.Misconfigured {
		t.Errorf("on a list: %v", err)
	}
	command(t, s, "DEL", conn.DefaultPrefix+sharedName)
	for _, bad := range []string{"short", strings.Repeat("s", 16) + "what is no thing", strings.Repeat("s", 50)} {
		command(t, s, "SET", conn.DefaultPrefix+sharedName, bad)
		if all, sharing := sharedAt(t, s); len(all) != 0 || sharing.Salt == [16]byte{} {
			t.Errorf("%q is read as %q", bad, all)
		}
		if n := command(t, s, "STRLEN", conn.DefaultPrefix+sharedName); n != "16" {
			t.Errorf("%q is not written anew: %s bytes", bad, n)
		}
	}
}

func FuzzSharingOf(f *testing.F) {
	salt := strings.Repeat("s", 16)
	f.Add(salt, strings.Repeat("n", 16), "1000000000000000text")
	f.Add(salt, "short", "1000000000000000text")
	f.Add(salt, strings.Repeat("n", 16), "-000000000000001")
	f.Fuzz(func(t *testing.T, salt, name, value string) {
		sharing, ok := sharingOf([]string{salt, name, value})
		if !ok {
			return
		}
		one := sharing.All[0]
		if string(sharing.Salt[:]) != salt || string(one.Name[:]) != name || fmt.Sprintf("%016d%s", one.Until, one.Text) != value {
			t.Errorf("%q, %q, %q are read as %+v", salt, name, value, sharing)
		}
	})
}
