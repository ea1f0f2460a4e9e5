package tenantsource

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/tenant/sqltenant"
)

// TestReplicaLagGrowsWhileAway: what was read of a replica that does not answer grows older
// from its last lag on; of one that never answered nothing is known; and one that answers
// shows what it said.
func TestReplicaLagGrowsWhileAway(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1_000_000, 0).Add(time.Duration(s) * time.Second) }
	away := errors.New("away")
	r := newReplica("postgres://r/d")
	is := func(now int, want Replica) {
		t.Helper()
		if got := *r.state(at(now)); got != want {
			t.Errorf("at %d s: %+v, want %+v", now, got, want)
		}
	}
	is(0, Replica{Lag: -1})
	r.note(nil, away, at(1))
	is(9, Replica{Lag: -1})
	r.note(&sqltenant.Standby{Replays: true, Receiving: true, Unreplayed: 7, Last: at(10).Add(-3 * time.Second), Now: at(10)}, nil, at(10))
	is(20, Replica{OK: true, Receiving: true, Unreplayed: 7, Lag: 3 * time.Second})
	r.note(nil, away, at(12))
	is(20, Replica{Unreplayed: 7, Lag: 13 * time.Second})
	if !r.wrote(nil) || r.wrote(nil) {
		t.Error("that the primary was opened is news once")
	}
	is(21, Replica{Unreplayed: 7, Lag: 14 * time.Second, PrimaryOpened: true})
	if r := newReplica(""); r != nil || r.state(at(0)) != nil {
		t.Error("there is a replica where none is named")
	}
}
