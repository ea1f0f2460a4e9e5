package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// What somebody else has put in the place of notices takes none of the others away, and no more is
// read of it than of notices.
func TestForeignNotices(t *testing.T) {
	s, _ := openRedis(t)
	for _, node := range []string{"true", "list", "long"} {
		if err := s.Post(t.Context(), node, []byte("of "+node), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	keyOf := func(node string) string {
		hash := hashOf([]byte(node))
		return conn.DefaultPrefix + string(hash[:]) + boardName
	}
	command(t, s, "DEL", keyOf("list"))
	command(t, s, "LPUSH", keyOf("list"), "x")
	command(t, s, "SETRANGE", keyOf("long"), "100000000", "x")
	command(t, s, "ZADD", conn.DefaultPrefix+boardName, "8e15", strings.Repeat("n", 1<<20), "8e15", strings.Repeat("n", maxRosterName+1), "8e15", strings.Repeat("n", maxRosterName))
	got, err := s.Notices(t.Context())
	if err != nil || len(got) != 3 || string(got["true"]) != "of true" {
		t.Errorf("%d notices, %v", len(got), err)
	}
	for _, node := range []string{"list", "long"} {
		if text, up := got[node]; !up || len(text) > 0 {
			t.Errorf("%s: %.20q, %t", node, text, up)
		}
	}
	if err := s.Post(t.Context(), "list", []byte("anew"), time.Minute); err != nil {
		t.Error(err)
	}
	if got, err = s.Notices(t.Context()); err != nil || string(got["list"]) != "anew" {
		t.Errorf("%q, %v", got["list"], err)
	}
}

// Of a board that somebody else has filled no more is read than a board holds.
func TestCrowdedBoard(t *testing.T) {
	s, _ := openRedis(t)
	for i := 0; i < 100_000; i += 1000 {
		words := []string{"ZADD", conn.DefaultPrefix + boardName}
		for n := range 1000 {
			words = append(words, "8e15", strconv.Itoa(i+n))
		}
		command(t, s, words...)
	}
	command(t, s, "CONFIG", "RESETSTAT")
	if got, err := s.Notices(t.Context()); err != nil || len(got) > maxNotices {
		t.Errorf("%d notices, %v", len(got), err)
	}
	if calls := stat(t, s, "commandstats", `cmdstat_evalsha:calls=(\d+)`); calls > maxNotices/noticeBatch+2 {
		t.Errorf("%d calls", calls)
	}
	if err := s.Post(t.Context(), "one more", []byte("x"), time.Minute); store.ReasonOf(err) != store.Full {
		t.Error(err)
	}
}

// The text of a register and what nodes share is not read where it is longer than nodes write it.
func TestForeignTexts(t *testing.T) {
	s, _ := openRedis(t)
	key := conn.DefaultPrefix + "register:a"
	command(t, s, "HSET", key, "version", "7", "text", strings.Repeat("x", store.MaxRegister))
	if version, text, err := s.ReadRegister(t.Context(), "a", 0); err != nil || version != 7 || len(text) != store.MaxRegister {
		t.Errorf("version %d, %d bytes, %v", version, len(text), err)
	}
	command(t, s, "HSET", key, "text", strings.Repeat("x", store.MaxRegister+1))
	if _, text, err := s.ReadRegister(t.Context(), "a", 0); text != nil || store.ReasonOf(err) != store.Misconfigured || !strings.Contains(err.Error(), fmt.Sprintf("its text has %d bytes", store.MaxRegister+1)) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	command(t, s, "HSET", key, "version", strings.Repeat("7", 1<<20), "text", "x")
	if version, text, err := s.ReadRegister(t.Context(), "a", 0); err == nil || len(err.Error()) > 1000 {
		t.Errorf("version %d, %q, %v", version, text, err)
	}
	command(t, s, "SETRANGE", conn.DefaultPrefix+sharedName, "100000000", "x")
	if got, err := s.Share(t.Context(), nil); err != nil || len(got.All) != 0 {
		t.Errorf("%d shared, %v", len(got.All), err)
	}
	if length := command(t, s, "STRLEN", conn.DefaultPrefix+sharedName); length != "16" {
		t.Errorf("what is shared has %s bytes", length)
	}
}

// A bucket in whose place is a value of another type fails the call that it is in, and no other: what
// stands before it there is charged already, so that nothing is asked again.
func TestForeignBucketFailsItsCall(t *testing.T) {
	s, _ := openRedis(t)
	l := limit.Must(limit.PerHour(10))
	if r := takeOne(s, "bad", l, 1); r.Err != nil {
		t.Fatal(r.Err)
	}
	key := command(t, s, "RANDOMKEY")
	command(t, s, "DEL", key)
	command(t, s, "LPUSH", key, "x")
	results := make([]store.Result, 2)
	s.Take(t.Context(), []store.Take{{Key: []byte("good"), Limit: l, Hits: 1}, {Key: []byte("bad"), Limit: l, Hits: 1}}, results)
	for i := range results {
		if store.ReasonOf(results[i].Err) != store.Misconfigured || !strings.Contains(results[i].Err.Error(), "another program writes under this prefix") {
			t.Errorf("take %d: %v", i, results[i].Err)
		}
	}
	if r := takeOne(s, "good", l, 1); r.Err != nil || r.Remaining != 8 {
		t.Errorf("afterwards: %+v", r)
	}
}
