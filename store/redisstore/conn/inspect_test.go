package conn

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

func TestLearnInfo(t *testing.T) {
	const usual = "# Memory\r\nused_memory:1024\r\nused_memory_human:1K\r\nmaxmemory:2048\r\nmaxmemory_policy:noeviction\r\n\r\n" +
		"# Stats\r\nevicted_keys:3\r\nexpired_keys:4\r\n# Keyspace\r\ndb0:keys=5,expires=5,avg_ttl=0\r\ndb12:keys=6,expires=0\r\n"
	for _, tt := range []struct {
		name, info string
		want       Inspection
	}{
		{"usual", usual, Inspection{Memory: 1024, MaxMemory: 2048, Evicted: 3, Expired: 4, Keys: 11}},
		{"nothing", "", Inspection{}},
		{"no lines", strings.Repeat("x", 100), Inspection{}},
		{"not numbers", "used_memory:a\nmaxmemory:-1\nevicted_keys:1e3\ndb0:keys=,x\ndbx:keys=1\ndb99999:keys=1\n", Inspection{}},
		{"beyond what is believed", "used_memory:9223372036854775807\n", Inspection{Memory: maxCount}},
		{"cut off", strings.Repeat("#\n", maxInspected) + usual, Inspection{}},
	} {
		var in Inspection
		if in.learnInfo(tt.info); in != tt.want {
			t.Errorf("%s: %+v", tt.name, in)
		}
	}
}

func TestLearnTime(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	for _, tt := range []struct{ told, took, offset, off time.Duration }{
		{2 * time.Millisecond, 4 * time.Millisecond, 0, 2 * time.Millisecond},
		{time.Hour, 2 * time.Millisecond, time.Hour - time.Millisecond, time.Millisecond},
		{-time.Second, 0, -time.Second, 0},
	} {
		var in Inspection
		in.learnTime(began.Add(tt.told), began, began.Add(tt.took))
		if in.ClockOffset != tt.offset || in.ClockError != tt.off {
			t.Errorf("%+v: %v, %v", tt, in.ClockOffset, in.ClockError)
		}
	}
}

// A question is one of the calls that have places: it gets none where all are taken, and one that
// was given up on keeps its own until the server has answered.
func TestInspectTakesAPlace(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	s := openOne(t, Options{Addr: server.Addr, MaxInFlight: 1})
	se, fault := s.Session()
	if fault != nil {
		t.Fatal(fault)
	}
	for range 2 {
		if in := s.Inspect(t.Context()); in.Err != nil || se.inFlight.taken() != 0 {
			t.Fatalf("%v, and %d places are taken", in.Err, se.inFlight.taken())
		}
	}
	server.Stop()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if in := s.Inspect(gone); !errors.Is(in.Err, context.Canceled) {
		t.Errorf("its caller is gone: %v", in.Err)
	}
	if n := se.inFlight.taken(); n != 1 {
		t.Errorf("%d places are taken by a question that has no answer, want 1", n)
	}
	if in := s.Inspect(gone); !errors.Is(in.Err, ErrTooMany) {
		t.Errorf("all places are taken: %v, want %v", in.Err, ErrTooMany)
	}
	server.Continue()
}

// Nothing is asked any more while the calls before the end are waited for.
func TestInspectWhileLeaving(t *testing.T) {
	s := openOne(t, Options{Addr: testserver.Redis(t, testserver.RedisConfig{}).Addr})
	s.leaving.Store(s.Options.Fault("dial", ErrClosed))
	if in := s.Inspect(t.Context()); !errors.Is(in.Err, ErrClosed) {
		t.Errorf("%+v, want %v", in, ErrClosed)
	}
}

// FuzzInfo reads anything that a server may say.
func FuzzInfo(f *testing.F) {
	f.Add("used_memory:1\r\ndb0:keys=1,expires=0\r\n")
	f.Add("db0:keys=9223372036854775807\ndb1:keys=9223372036854775807\n")
	f.Fuzz(func(t *testing.T, info string) {
		var in Inspection
		in.learnInfo(info)
		if in.Memory < 0 || in.MaxMemory < 0 || in.Keys < 0 || in.Memory > maxCount {
			t.Errorf("%+v", in)
		}
	})
}
