package cli

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/view"
)

// TestTopTellsOfReplicas: a line says what is odd about the replica that tenants are read of,
// and of several nodes the worst one.
func TestTopTellsOfReplicas(t *testing.T) {
	lag := func(s float64) *float64 { return &s }
	fine := &view.Replica{OK: true, Receiving: true, PrimaryOpened: true, LagS: lag(0.2)}
	late := &view.Replica{OK: true, Receiving: true, PrimaryOpened: true, LagS: lag(75)}
	away := &view.Replica{LagS: lag(5), PrimaryOpened: true}
	for _, test := range []struct {
		replica *view.Replica
		want    string
	}{
		{nil, ""}, {fine, ""}, {late, "tenants: up to 1m behind"},
		{away, "tenants: replica does not answer, up to 5s behind"},
		{&view.Replica{}, "tenants: replica does not answer, primary has not answered, lag not known"},
		{&view.Replica{OK: true, Primary: true, PrimaryOpened: true, LagS: lag(0)}, "tenants: replica is a primary itself"},
		{&view.Replica{OK: true, Receiving: true, Paused: true, PrimaryOpened: true, LagS: lag(3)}, "tenants: replay paused, up to 3s behind"},
		{&view.Replica{OK: true, PrimaryOpened: true, LagS: lag(3)}, "tenants: replica cut off from its primary, up to 3s behind"},
	} {
		if got := replicaLine(test.replica); got != test.want {
			t.Errorf("%+v: %q, want %q", test.replica, got, test.want)
		}
	}
	for _, pair := range [][2]*view.Replica{{nil, fine}, {fine, late}, {late, away}, {fine, away}} {
		if a, b := worseReplica(pair[0], pair[1]), worseReplica(pair[1], pair[0]); a != pair[1] || b != pair[1] {
			t.Errorf("of %+v and %+v the worse one is %+v, and %+v", pair[0], pair[1], a, b)
		}
	}
	s := &snapshot{Overview: &view.Overview{Health: view.Health{Ready: true, Replica: late}}}
	if text := strings.Join(summary(s, 0, painter(false)), "\n"); !strings.Contains(text, "tenants: up to 1m behind") {
		t.Error(text)
	}
}
