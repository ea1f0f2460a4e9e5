package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// epochOf asks until the server answers.
func epochOf(t *testing.T, s *Store) (e store.Epoch) {
	t.Helper()
	eventually.True(t, "the server tells its epoch", func() bool {
		var err error
		e, err = s.Epoch(t.Context())
		return err == nil
	})
	return e
}

// An epoch lasts as long as the server remembers all: not over a restart on what was saved, nor
// over the loss of the mark.
func TestEpoch(t *testing.T) {
	for _, program := range testserver.RedisPrograms {
		t.Run(program, func(t *testing.T) {
			server := testserver.Redis(t, testserver.RedisConfig{Program: program})
			s := openURL(t, server.URL())
			first := epochOf(t, s)
			if again := epochOf(t, s); first.ID == 0 || again.ID != first.ID || again.Age < first.Age {
				t.Errorf("%+v, then %+v", first, again)
			}
			command(t, s, "SAVE")
			server.Kill()
			server.Restart()
			second := epochOf(t, s)
			if second.ID == first.ID {
				t.Errorf("after a restart it is %+v as before", second)
			}
			if mark := command(t, s, "GET", conn.DefaultPrefix+epochName); mark == "" {
				t.Error("there is no mark")
			}
			command(t, s, "FLUSHALL")
			third := epochOf(t, s)
			if third.ID == second.ID || third.ID == first.ID {
				t.Errorf("after all was lost it is %+v as before", third)
			}
			command(t, s, "SET", conn.DefaultPrefix+epochName, "x")
			if fourth := epochOf(t, s); fourth.ID == third.ID {
				t.Errorf("with another mark it is %+v as before", fourth)
			}
		})
	}
}

// An epoch that is vouched for is as old as can be, and stays the epoch that it was.
func TestVouch(t *testing.T) {
	s, _ := openRedis(t)
	now := limit.MicrosOf(time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC))
	s.clock = func() limit.Micros { return now }
	first := epochOf(t, s)
	now += limit.Micros(time.Minute / time.Microsecond)
	if e := epochOf(t, s); first.Age != 0 || e.Age != time.Minute {
		t.Errorf("after a minute the age is %v, at first %v", e.Age, first.Age)
	}
	if err := s.Vouch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := epochOf(t, s); e.ID != first.ID || e.Age < 2*limit.MaxPeriod {
		t.Errorf("vouched for it is %+v, before %+v", e, first)
	}
	now -= limit.Micros(time.Hour / time.Microsecond)
	if e := epochOf(t, s); e.ID != first.ID {
		t.Errorf("by a clock that was set back it is %+v", e)
	}
}

// Who may not ask who the server is hears why.
func TestEpochNeedsRights(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{Users: []string{"user default on nopass ~* +@all -info"}})
	s := openURL(t, server.URL())
	var fault *store.Error
	if _, err := s.Epoch(t.Context()); !errors.As(err, &fault) {
		t.Errorf("%v", err)
	} else {
		t.Log(err)
	}
}

// A cluster forgets in parts.
func TestNoEpochOfACluster(t *testing.T) {
	s := open(t, clusterOptions(testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})))
	var fault *store.Error
	if _, err := s.Epoch(t.Context()); !errors.As(err, &fault) || fault.Reason != store.Misconfigured {
		t.Errorf("%v", err)
	}
}

// A server that evicts keys may have evicted one in which lent hits were counted, so its epoch ends.
//
//promise:region-home-forgets
func TestEvictionEndsAnEpoch(t *testing.T) {
	for _, program := range testserver.RedisPrograms {
		t.Run(program, func(t *testing.T) {
			s := openURL(t, testserver.Redis(t, testserver.RedisConfig{Program: program}).URL())
			command(t, s, "CONFIG", "SET", "maxmemory-policy", "volatile-lru") // the mark itself stays
			first := epochOf(t, s)
			evict(t, s)
			second := epochOf(t, s)
			if second.ID == first.ID {
				t.Errorf("after keys were evicted it is %+v as before", second)
			}
			if again := epochOf(t, s); again.ID != second.ID {
				t.Errorf("no more was evicted, and after %+v it is %+v", second, again)
			}
			if err := s.Vouch(t.Context()); err != nil {
				t.Fatal(err)
			}
			if e := epochOf(t, s); e.ID != second.ID || e.Age < 2*limit.MaxPeriod {
				t.Errorf("vouched for it is %+v, before %+v", e, second)
			}
			evict(t, s)
			if e := epochOf(t, s); e.ID == second.ID || e.Age > time.Hour {
				t.Errorf("after more was evicted it is %+v, before %+v", e, second)
			}
		})
	}
}

// evict has the server evict a key, and then sets no bound to its memory.
func evict(t *testing.T, s *Store) {
	t.Helper()
	command(t, s, "SET", "another", "program", "EX", "3600")
	command(t, s, "CONFIG", "SET", "maxmemory", "1")
	eventually.True(t, "the key is evicted", func() bool { return command(t, s, "EXISTS", "another") == "0" })
	command(t, s, "CONFIG", "SET", "maxmemory", "0")
}
