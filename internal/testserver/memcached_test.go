package testserver

import "testing"

func TestMemcached(t *testing.T) {
	for name, cfg := range map[string]MemcachedConfig{"tcp": {}, "unix": {Unix: true}} {
		t.Run(name, func(t *testing.T) {
			s := Memcached(t, cfg)
			set := func() (string, error) { return s.Exchange("add k 0 0 1\r\nx\r\n") }
			if answer, err := set(); err != nil || answer != "STORED" {
				t.Fatalf("add answered %q, %v", answer, err)
			}
			s.Stop()
			if answer, err := s.exchange("version\r\n", silence); err == nil {
				t.Errorf("a frozen memcached answered %q", answer)
			}
			s.Continue()
			if answer, err := set(); err != nil || answer != "NOT_STORED" {
				t.Errorf("add after continue: %q, %v", answer, err)
			}
			s.Kill()
			if _, err := set(); err == nil {
				t.Error("a killed memcached answers")
			}
			s.Restart()
			if answer, err := set(); err != nil || answer != "STORED" {
				t.Errorf("add after a restart: %q, %v", answer, err)
			}
		})
	}
}
