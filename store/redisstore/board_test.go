package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
	"github.com/headgate/headgate/store/storetest"
)

func TestBoardConformance(t *testing.T) { storetest.RunBoard(t, openClocked) }

func TestBoardInACluster(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	storetest.RunBoard(t, func(t *testing.T) storetest.Harness { return clocked(t, openEmptied(t, servers)) })
}

func TestBoardWithSentinels(t *testing.T) {
	servers := testserver.Sentinel(t, testserver.SentinelConfig{})
	storetest.RunBoard(t, func(t *testing.T) storetest.Harness {
		servers.Primary().MustDo("FLUSHALL")
		return clocked(t, open(t, sentinelOptions(servers)))
	})
}

// By Redis's own clock, each notice and the board live as long as they are up, and a
// second.
func TestBoardExpires(t *testing.T) {
	s, _ := openRedis(t)
	for _, c := range []struct {
		node             string
		ttl, board, left time.Duration
	}{{"a", time.Hour, time.Hour, time.Hour}, {"b", time.Minute, time.Hour, time.Minute}, {"a", time.Minute, time.Minute, time.Minute}} {
		if err := s.Post(t.Context(), c.node, []byte("x"), c.ttl); err != nil {
			t.Fatal(err)
		}
		hash := hashOf([]byte(c.node))
		for name, most := range map[string]time.Duration{boardName: c.board, string(hash[:]) + boardName: c.left} {
			left, err := strconv.Atoi(command(t, s, "PTTL", conn.DefaultPrefix+name))
			if got := time.Duration(left) * time.Millisecond; err != nil || got <= 0 || got > most+time.Second+time.Millisecond {
				t.Errorf("%s for %v: %q lives for %v, %v", c.node, c.ttl, name, got, err)
			}
		}
	}
	for _, node := range []string{"a", "b"} {
		if err := s.Post(t.Context(), node, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if n := command(t, s, "DBSIZE"); n != "0" {
		t.Errorf("%s keys after the last notice was taken down", n)
	}
}

// A full board refuses one more, and holds what it is said to hold.
func TestBoardIsBounded(t *testing.T) {
	s, _ := openRedis(t)
	notice := bytes.Repeat([]byte("n"), store.MaxNotice)
	for i := range maxNotices {
		if err := s.Post(t.Context(), fmt.Sprint("node ", i), notice, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	err := s.Post(t.Context(), "one too many", notice, time.Hour)
	if store.ReasonOf(err) != store.Full || !strings.Contains(err.Error(), "hint: more than 256 nodes") {
		t.Errorf("one too many: %v", err)
	}
	if n := command(t, s, "DBSIZE"); n != strconv.Itoa(maxNotices+1) {
		t.Errorf("%s keys", n)
	}
	command(t, s, "CONFIG", "RESETSTAT")
	began := time.Now()
	got, err := s.Notices(t.Context())
	if err != nil || len(got) != maxNotices {
		t.Errorf("%d notices, %v", len(got), err)
	}
	calls := stat(t, s, "commandstats", `cmdstat_evalsha:calls=(\d+)`)
	t.Logf("16 MiB of notices in %v, %d calls", time.Since(began), calls)
	if most := maxNotices/(noticePage/store.MaxNotice) + 2; calls > most {
		t.Errorf("%d calls, more than %d", calls, most)
	}
}

// What is no board, or has gone by itself, is told or passed over; a Redis that is not
// there is an error.
func TestBoardErrors(t *testing.T) {
	s, server := openRedis(t)
	for _, node := range []string{"a", "b"} {
		if err := s.Post(t.Context(), node, []byte("of "+node), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	hash := hashOf([]byte("a"))
	command(t, s, "DEL", conn.DefaultPrefix+string(hash[:])+boardName) // evicted
	if got, err := s.Notices(t.Context()); err != nil || len(got) != 1 || string(got["b"]) != "of b" {
		t.Errorf("%q, %v", got, err)
	}
	command(t, s, "SCRIPT", "FLUSH")
	if got, err := s.Notices(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("after SCRIPT FLUSH: %q, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Notices(ctx); store.ReasonOf(err) != store.Timeout || !strings.HasPrefix(err.Error(), "read notices ") {
		t.Errorf("when cancelled: %v", err)
	}
	command(t, s, "DEL", conn.DefaultPrefix+boardName)
	command(t, s, "SET", conn.DefaultPrefix+boardName, "x")
	if err := s.Post(t.Context(), "a", nil, time.Minute); store.ReasonOf(err) != store.Misconfigured {
		t.Errorf("on a string: %v", err)
	}
	server.Kill()
	eventually.True(t, "the connection is gone", func() bool {
		return s.Post(t.Context(), "a", nil, time.Minute) != nil
	})
	if err := s.Post(t.Context(), "a", nil, time.Minute); err == nil || !strings.HasPrefix(err.Error(), "post ") {
		t.Errorf("post: %v", err)
	}
}

// A user who may decide and nothing else has no roster and no board, and decides all the
// same: what is denied there takes neither the connection nor the breaker from takes.
func TestDeniedBoardLeavesDecisionsAlone(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{Users: []string{
		"user default off",
		"user app on >secret ~hg:* +evalsha +eval +time +get +set +incrby +del +strlen +getrange +append +pexpire",
	}})
	o, err := ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	o.Username, o.Password = "app", "secret"
	s := open(t, o)
	l := limit.Must(limit.PerHour(100))
	for i := range 20 {
		_, attended := s.Attend(t.Context(), "n", time.Minute)
		_, read := s.Notices(t.Context())
		for op, err := range map[string]error{"attend": attended, "post": s.Post(t.Context(), "n", []byte("{}"), time.Minute), "read": read} {
			var fault *store.Error
			if !errors.As(err, &fault) || fault.Reason != store.Denied {
				t.Fatalf("%s: %v", op, err)
			}
		}
		if r := takeOne(s, "k", l, 1); r.Err != nil || !r.Allowed {
			t.Fatalf("take %d: %+v", i, r)
		}
	}
}
