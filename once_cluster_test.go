package headgate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
)

// F2: a check with an id whose claim lies on a shard that is away is answered by failure
// mode, and its bucket on another shard is charged nothing. Where the claim can be made and
// the bucket cannot be reached, the failure mode answers as well. All others are decided,
// and charged once.
//
//promise:id-cluster
func TestF2ShardOfTheIDIsAway(t *testing.T) {
	const users = 60
	cluster := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	s := openRedis(t, "redis+cluster://"+strings.Join(cluster.Addrs(), ","))
	t.Cleanup(func() { s.Close() })
	l, err := headgate.New(headgate.Options{Store: s, AnswersAwaited: time.Minute, Rules: load(t, `
domain: d
descriptors: [{key: user, rate_limit: {window: 366d, requests_per_unit: 10, algorithm: fixed_window}}]
`)})
	if err != nil {
		t.Fatal(err)
	}
	// ask checks the user i, by an id of its own or by none, and returns what is left of 10
	// and why the store did not decide.
	ask := func(i int, id string, hits int64) (left int64, reason store.Reason) {
		t.Helper()
		d := on(fmt.Sprint("user:", i))
		d.Hits = hits
		responses := make([]headgate.Response, 1)
		if err := l.CheckOnce(t.Context(), []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{d}}}, []string{id}, responses); err != nil {
			t.Fatal(err)
		}
		if !responses[0].Allowed {
			t.Errorf("user %d is denied: %+v", i, responses[0].Verdicts)
		}
		return responses[0].Verdicts[0].Decision.Remaining, responses[0].Degraded()
	}
	for i := range users {
		if left, reason := ask(i, "", 1); left != 9 || reason != store.NoReason {
			t.Fatalf("user %d: %d left, %q", i, left, reason)
		}
	}
	cluster.Nodes[0].Kill()

	var decided, unclaimed, unreached int
	for i := range users {
		_, first := ask(i, fmt.Sprint("id-", i), 1)
		again, repeated := ask(i, fmt.Sprint("id-", i), 1)
		left, away := ask(i, "", 0)
		switch {
		case away != store.NoReason:
			unreached++
			if first == store.NoReason || repeated == store.NoReason {
				t.Errorf("user %d: decided without the shard of its bucket", i)
			}
		case first == store.NoReason:
			decided++
			if left != 8 || again != 8 || repeated != store.NoReason {
				t.Errorf("user %d: %d left, and the repeat is told %d (%q), want 8", i, left, again, repeated)
			}
		default:
			unclaimed++
			if left != 9 || repeated == store.NoReason {
				t.Errorf("user %d: %d left, want 9; the repeat: %q", i, left, repeated)
			}
		}
	}
	if decided == 0 || unclaimed == 0 || unreached == 0 {
		t.Errorf("%d decided, %d not claimed, %d not reached: the test wants some of each", decided, unclaimed, unreached)
	}
	t.Logf("%d decided, %d not claimed, %d not reached", decided, unclaimed, unreached)
}
