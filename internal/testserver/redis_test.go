package testserver

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRedisAnswers(t *testing.T) {
	cases := map[string]struct {
		cfg  RedisConfig
		want string
	}{
		"tcp":      {RedisConfig{}, "+PONG"},
		"unix":     {RedisConfig{NoTCP: true}, "+PONG"},
		"tls":      {RedisConfig{TLS: true}, "+PONG"},
		"password": {RedisConfig{Password: "secret"}, "-NOAUTH"},
		"users":    {RedisConfig{Users: []string{"user default off", "user app on >secret ~* +@all"}}, "-NOAUTH"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			answer, err := Redis(t, c.cfg).exchange("PING\r\n")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(answer, c.want) {
				t.Errorf("PING answered %q, want %q", answer, c.want)
			}
		})
	}
}

func TestRedisKillAndRestart(t *testing.T) {
	s := Redis(t, RedisConfig{})
	addr := s.Addr
	s.Kill()
	if _, err := s.exchange("PING\r\n"); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart()
	if s.Addr != addr {
		t.Errorf("restarted on %s, was on %s", s.Addr, addr)
	}
	if answer, err := s.exchange("PING\r\n"); err != nil || answer != "+PONG" {
		t.Errorf("PING after restart: %q, %v", answer, err)
	}
}

func TestRedisStopAndContinue(t *testing.T) {
	s := Redis(t, RedisConfig{})
	s.Stop()
	if answer, err := s.exchange("PING\r\n"); err == nil {
		t.Errorf("a stopped server answered %q", answer)
	}
	s.Continue()
	if answer, err := s.exchange("PING\r\n"); err != nil || answer != "+PONG" {
		t.Errorf("PING after continue: %q, %v", answer, err)
	}
}

func TestRedisReplica(t *testing.T) {
	primary := Redis(t, RedisConfig{})
	replica := Redis(t, RedisConfig{ReplicaOf: primary})
	answer, err := replica.exchange("SET key value\r\n")
	if err != nil || !strings.HasPrefix(answer, "-READONLY") {
		t.Errorf("SET on a replica answered %q, %v", answer, err)
	}
}
