package headgate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// onceModelRules have three limits of which one is the same for all, so that in a cluster they lie
// in several shards. No window ends in a test.
const onceModelRules = `
domain: llm
match: path
descriptors:
  - always: true
    name: all
    rate_limit: {window: 366d, requests_per_unit: 4000, algorithm: fixed_window}
  - key: user
    rate_limit: {window: 366d, requests_per_unit: 1500}
    descriptors:
      - key: model
        rate_limit: {window: 366d, requests_per_unit: 900, algorithm: sliding_log}
`

// TestF2ChargedExactlyOnce checks at random through two limiters, on memory, Redis and a
// cluster of it, each check by an id that may have been there before, alone and several at
// one time. Whatever happens each id is charged once, or denied and charged nothing, and
// all who ask by it are told the same.
func TestF2ChargedExactlyOnce(t *testing.T) {
	all := stores(t)
	cluster := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	all["cluster"] = func() store.Store { return openRedis(t, "redis+cluster://"+strings.Join(cluster.Addrs(), ",")) }
	for name, open := range all {
		t.Run(name, func(t *testing.T) {
			shared := open()
			defer shared.Close()
			var runs atomic.Int64
			rapid.Check(t, func(t *rapid.T) {
				w := &onceWorld{reserveWorld: newOnceWorld(t, shared, fmt.Sprint(name, runs.Add(1))), first: map[string]string{}}
				for range rapid.IntRange(1, 15).Draw(t, "steps") {
					w.step()
				}
				w.compare()
			})
		})
	}
}

func newOnceWorld(t *rapid.T, s store.Store, domain string) *reserveWorld {
	w := &reserveWorld{t: t, domain: domain, now: time.Now(), model: account{}}
	for i := range w.limiters {
		l, err := headgate.New(headgate.Options{Store: s, Rules: loadIn(t, domain, onceModelRules), AnswersAwaited: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		w.limiters[i] = l
	}
	return w
}

// onceWorld remembers what was told by which id.
type onceWorld struct {
	*reserveWorld
	first map[string]string
}

// step makes one call of a few checks, by one caller or by several at one time.
func (w *onceWorld) step() {
	var requests []headgate.Request
	var ids []string
	for range rapid.IntRange(1, 3).Draw(w.t, "checks") {
		user := rapid.SampledFrom([]string{"a", "b"}).Draw(w.t, "user")
		id := rapid.IntRange(1, 6).Draw(w.t, "id")
		requests = append(requests, *w.request(user, int64(100*id)))
		ids = append(ids, fmt.Sprint(id))
	}
	callers := rapid.IntRange(1, 3).Draw(w.t, "callers")
	told := make([][]headgate.Response, callers)
	var asking sync.WaitGroup
	for c := range callers {
		told[c] = make([]headgate.Response, len(requests))
		asking.Go(func() {
			// Each caller has requests of its own, because a Door writes to them.
			own := append([]headgate.Request(nil), requests...)
			door := w.limiters[c%2].Door(headgate.DoorOptions{Rights: headgate.Rights{Check: true}, AnswersLast: repeat.MaxLifetime})
			if err := door.CheckOnce(context.Background(), own, ids, told[c]); err != nil {
				w.t.Error(err)
			}
		})
	}
	asking.Wait()
	for c := range told {
		for i := range told[c] {
			r := &told[c][i]
			name := requests[i].Descriptors[0].Entries[0].Value + " " + ids[i]
			text := fmt.Sprint(r.Allowed, r.Degraded())
			for _, v := range r.Verdicts {
				text += fmt.Sprintf("; %s %d of %d", v.Rule.ID, v.Decision.Remaining, v.Decision.Limit)
			}
			if before, ok := w.first[name]; ok && before != text {
				w.t.Fatalf("%s: %s, first %s", name, text, before)
			} else if !ok && r.Allowed {
				w.model.add(requests[i].Descriptors[0].Entries[0].Value, requests[i].Descriptors[0].Hits)
			}
			w.first[name] = text
		}
	}
}

// compare looks what is used of each bucket.
func (w *onceWorld) compare() {
	for _, user := range []string{"a", "b"} {
		responses := make([]headgate.Response, 1)
		req := *w.request(user, 0)
		if err := w.limiter().Check(context.Background(), []headgate.Request{req}, responses); err != nil {
			w.t.Fatal(err)
		}
		for i, bucket := range bucketsOf(user) {
			d := responses[0].Verdicts[i].Decision
			if used := d.Limit - d.Remaining; used != w.model[bucket] {
				w.t.Fatalf("%s: %d used, want %d", bucket, used, w.model[bucket])
			}
		}
	}
}

// TestF2NeverTwice loses questions and answers of the store, of takes and of notes, and
// asks again by the same id until there is an answer that the store has given. No id is
// charged twice, and what is charged was asked for.
//
//promise:id-repeat
func TestF2NeverTwice(t *testing.T) {
	rapid.Check(t, neverTwice)
}

func neverTwice(t *rapid.T) {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	chance := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	var calm bool
	bad := func() bool { return !calm && chance.IntN(4) == 0 }
	lost := &losing{Swapper: buckets, bad: bad}
	limiters := [2]*headgate.Limiter{}
	for i := range limiters {
		l, err := headgate.New(headgate.Options{
			Store: &unreliable{Store: buckets, fails: bad, loses: bad}, Answers: lost, AnswersAwaited: 1,
			Rules: loadIn(t, "d", "domain: d\nmatch: path\ndescriptors: [{key: user, rate_limit: {window: 366d, requests_per_unit: 1000, algorithm: fixed_window}}]"),
		})
		if err != nil {
			t.Fatal(err)
		}
		limiters[i] = l
	}
	ids := rapid.IntRange(1, 10).Draw(t, "ids")
	for id := range ids {
		for range rapid.IntRange(1, 6).Draw(t, "tries") {
			responses := make([]headgate.Response, 1)
			req := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{some("user:u", 1)}}}
			if err := limiters[chance.IntN(2)].CheckOnce(context.Background(), req, []string{fmt.Sprint(id)}, responses); err != nil {
				t.Fatal(err)
			}
		}
	}
	calm = true
	responses := make([]headgate.Response, 1)
	if err := limiters[0].Peek(context.Background(), []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{some("user:u", 1)}}}, responses); err != nil {
		t.Fatal(err)
	}
	d := responses[0].Verdicts[0].Decision
	if used := d.Limit - d.Remaining; used > int64(ids) {
		t.Fatalf("%d ids were charged %d times", ids, used)
	}
}

// losing loses swaps, or what came of them.
type losing struct {
	store.Swapper
	bad func() bool
}

func (l *losing) Swap(ctx context.Context, swaps []store.Swap, answers []store.Swapped) {
	fails := l.bad()
	if !fails {
		l.Swapper.Swap(ctx, swaps, answers)
		fails = l.bad()
	}
	for i := range answers {
		if fails {
			answers[i] = store.Swapped{Err: &store.Error{Op: "swap", Store: "test", Reason: store.Timeout}}
		}
	}
}
