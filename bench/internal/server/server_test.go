package server

import (
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const line = "4242 (redis (7) x) S 1 4242 4242 0 -1 4194560 900 0 0 0 150 75 0 0 20 0 5 0 100 1000 200"
	if got, err := parseStat(line); err != nil || got != 2250*time.Millisecond {
		t.Errorf("got %v, %v, want 2.25s", got, err)
	}
	for _, bad := range []string{"", "1 (x) S 1 2", "1 (x) S 1 2 3 4 5 6 7 8 9 10 a b 1"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q: got %v, want an error", bad, got)
		}
	}
}

func TestInfoNumber(t *testing.T) {
	const info = "# Stats\r\ntotal_reads_processed:17\r\n\r\n# Keyspace\r\ndb0:keys=42,expires=42,avg_ttl=0\r\nused_memory:9"
	for name, want := range map[string]int64{
		"total_reads_processed:": 17, "db0:keys=": 42, "missing:": 0,
	} {
		if got := infoNumber(info, name); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}
