package testserver

import (
	"testing"
)

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	cases := map[string]SentinelConfig{
		"plain":                {Quick: true},
		"passwords over TLS":   {Quick: true, Password: "secret", SentinelPassword: "other", TLS: true},
		"one sentinel, by two": {Quick: true, Sentinels: 1, Replicas: 2, Name: "counters"},
	}
	for name, cfg := range cases {
		t.Run(name, func(t *testing.T) {
			s := Sentinel(t, cfg)
			first := s.Primary()
			if first != s.Nodes[0] {
				t.Fatalf("the primary is %v, want the first node", first)
			}
			first.MustDo("SET", "key", "1")
			if killed := s.KillPrimary(); killed != first {
				t.Fatalf("killed %s, want %s", killed.Addr, first.Addr)
			}
			second := s.WaitForPrimary(first)
			if second == first {
				t.Fatal("the dead primary is named again")
			}
			second.MustDo("SET", "key", "2")
			s.Restart(first)
			if n := s.Failovers(); n < 1 {
				t.Error("the failover is not seen")
			}
			if got := first.MustDo("GET", "key"); got != "2" {
				t.Errorf("the restarted node holds %v, want 2", got)
			}
			if _, err := first.Do("SET", "key", "3"); err == nil {
				t.Error("the restarted node takes writes")
			}
		})
	}
}

func TestSentinelFailoverWithoutOneSentinel(t *testing.T) {
	t.Parallel()
	s := Sentinel(t, SentinelConfig{Quick: true})
	lost := s.Sentinels()[0]
	lost.Kill()
	first := s.KillPrimary()
	second := s.WaitForPrimary(first)
	s.RestartSentinel(lost)
	if got := s.Primary(); got != second {
		t.Errorf("with the sentinel back, the primary is %v", got)
	}
	s.Restart(first)
}

func TestSentinelReplacesWhatHangs(t *testing.T) {
	t.Parallel()
	s := Sentinel(t, SentinelConfig{Quick: true})
	hung := s.Primary()
	hung.Stop()
	s.WaitForPrimary(hung)
	hung.Continue()
	s.WaitForReplica(hung)
	if _, err := hung.Do("SET", "key", "1"); err == nil {
		t.Error("the replaced primary takes writes")
	}
}
