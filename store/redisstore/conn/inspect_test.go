package conn

import (
	"strings"
	"testing"
	"time"
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
