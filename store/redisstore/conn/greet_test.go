package conn

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/internal/testserver"
)

// greeted returns a session with a server that has been greeted, or why it was refused.
func greeted(t *testing.T, server *testserver.RedisServer) (*Session, error) {
	t.Helper()
	s, err := dial(t.Context(), optionsOf(t, server))
	if err == nil {
		t.Cleanup(s.Close)
	}
	return s, err
}

func optionsOf(t *testing.T, server *testserver.RedisServer) *Options {
	t.Helper()
	o, err := Options{Addr: server.Addr, DialTimeout: time.Minute, Budget: time.Minute}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return &o
}

// A replica is refused before any call reaches it, because a call that writes nothing would be
// answered from counts that are behind. One that has taken over names the history of its
// primary, so that what that one has counted is not taken for what the new one has.
func TestReplicaBeforeAndAfterItTakesOver(t *testing.T) {
	primary := testserver.Redis(t, testserver.RedisConfig{})
	replica := testserver.Redis(t, testserver.RedisConfig{ReplicaOf: primary})
	primary.AwaitReplica(replica)
	before, err := greeted(t, primary)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := greeted(t, replica); !errors.Is(err, errReplica) {
		t.Errorf("the greeting of a replica: %v, want %v", err, errReplica)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	admin, err := Connect(ctx, optionsOf(t, replica))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	if err := admin.Pipe.Ask(t.Context(), resp.Words("REPLICAOF", "NO", "ONE")).Err(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the replica says that it is a primary", func() bool { return admin.Role(t.Context()) == "master" })
	after, err := greeted(t, replica)
	if err != nil {
		t.Fatal(err)
	}
	if after.Forebear != before.History || after.History == before.History {
		t.Errorf("history %d after %d, want another one after %d", after.History, after.Forebear, before.History)
	}
}
