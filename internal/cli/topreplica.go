package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/view"
)

// lateReplica is from which lag on a replica is worth a line.
const lateReplica = 10 * time.Second

// replicaLine says what is odd about the replica that tenants are read of, "" for nothing.
func replicaLine(r *view.Replica) string {
	if r == nil {
		return ""
	}
	var words []string
	switch {
	case !r.OK:
		words = append(words, "replica does not answer")
	case r.Primary:
		words = append(words, "replica is a primary itself")
	case r.Paused:
		words = append(words, "replay paused")
	case !r.Receiving:
		words = append(words, "replica cut off from its primary")
	}
	if !r.PrimaryOpened {
		words = append(words, "primary has not answered")
	}
	switch lag := replicaLag(r); {
	case lag < 0 && len(words) > 0:
		words = append(words, "lag not known")
	case lag >= lateReplica, lag > 0 && len(words) > 0:
		words = append(words, fmt.Sprintf("up to %s behind", age(lag)))
	}
	if len(words) == 0 {
		return ""
	}
	return "tenants: " + strings.Join(words, ", ")
}

// replicaLag is how old at most what a replica has is; negative where that is not known.
func replicaLag(r *view.Replica) time.Duration {
	if r.LagS == nil {
		return -1
	}
	return time.Duration(*r.LagS * float64(time.Second))
}

// worseReplica returns the one of two nodes' replicas that is worth a line the most: one that
// does not answer before one that does, then by lag. Either may be nil.
func worseReplica(a, b *view.Replica) *view.Replica {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	rank := func(r *view.Replica) int {
		switch {
		case !r.OK:
			return 2
		case r.Primary || r.Paused || !r.Receiving || !r.PrimaryOpened:
			return 1
		}
		return 0
	}
	if cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(replicaLag(a), replicaLag(b))) < 0 {
		return b
	}
	return a
}
