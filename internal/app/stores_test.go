package app

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
)

// A Redis that answers is not yet one that can decide, and that must not be
// seen in refused requests only.
func TestPingOfAStoreThatCannotDecide(t *testing.T) {
	cases := map[string]struct {
		server testserver.RedisConfig
		want   store.Reason
	}{
		"all is well":      {testserver.RedisConfig{}, store.NoReason},
		"user lacks EVAL":  {testserver.RedisConfig{Users: []string{"user default on nopass ~* +@all -eval -evalsha"}}, store.Denied},
		"user has no keys": {testserver.RedisConfig{Users: []string{"user default on nopass ~other:* +@all"}}, store.Denied},
		"memory is full":   {testserver.RedisConfig{Args: []string{"--maxmemory", "1"}}, store.Full},
		"no such command":  {testserver.RedisConfig{Args: []string{"--rename-command", "EVALSHA", ""}}, store.Misconfigured},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			opened, err := openStore(config.NewStoreURL(testserver.Redis(t, c.server).URL()), time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			if err := opened.ping(t.Context()); store.ReasonOf(err) != c.want {
				t.Errorf("ping says %v, want reason %q", err, c.want)
			}
		})
	}
}
