package server

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// TestCPU: the clock of this very process agrees with what it says of itself.
func TestCPU(t *testing.T) {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	const step = 50 * time.Millisecond // what the two kinds of counting may differ by
	before := used()
	got, err := cpuOf(os.Getpid())
	if err != nil || got < before-step || got > used()+step {
		t.Errorf("%v, %v, want %v to %v", got, err, before, used())
	}
	if _, err := cpuOf(1 << 23); err == nil {
		t.Error("a process that is not there has a clock")
	}
}

func TestParseStatm(t *testing.T) {
	if got, err := parseStatm("900 12 3 4 0 5 0\n"); err != nil || got != int64(12*os.Getpagesize()) {
		t.Errorf("%d, %v", got, err)
	}
	for _, bad := range []string{"", "1", "1 x"} {
		if _, err := parseStatm(bad); err == nil {
			t.Errorf("%q is no error", bad)
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
