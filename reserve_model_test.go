package headgate_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/redisstore"
)

// reserveRules have one limit for all, one for each user and one for each user and
// model, whose windows are so long that nothing but reservations moves their counts.
const reserveRules = `
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
        rate_limit: {window: 366d, requests_per_unit: 9000, algorithm: sliding_log}
`

// account is the naive model of the buckets: what each has used.
type account map[string]int64

var quotas = map[string]int64{"all": 4000, "user": 1500, "model": 9000}

func bucketsOf(user string) [3]string { return [3]string{"all", "user:" + user, "model:" + user} }

func quotaOf(bucket string) int64 {
	kind, _, _ := strings.Cut(bucket, ":")
	return quotas[kind]
}

func (a account) fits(user string, hits int64) bool {
	for _, b := range bucketsOf(user) {
		if a[b]+hits > quotaOf(b) {
			return false
		}
	}
	return true
}

func (a account) add(user string, hits int64) {
	for _, b := range bucketsOf(user) {
		a[b] += hits
	}
}

// booking is a reservation of the model.
type booking struct {
	id, user string
	estimate int64
	made     time.Time
	texts    []string // what Reserve has answered
	settled  bool
}

func stores(t *testing.T) map[string]func() store.Store {
	server := testserver.Redis(t, testserver.RedisConfig{})
	return map[string]func() store.Store{
		"memory": func() store.Store {
			s, err := memstore.New(memstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"redis": func() store.Store {
			return openRedis(t, server.URL())
		},
	}
}

func openRedis(t testing.TB, url string) store.Store {
	o, err := redisstore.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.Budget = 30 * time.Second
	s, err := redisstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func loadIn(t rapid.TB, domain, yaml string) *rules.Set {
	return testrules.Load(t, strings.Replace(yaml, "domain: llm", "domain: "+domain, 1))
}

// TestA10ReservationsAddUp mixes reservations, repetitions, commits, cancellations and
// time that runs out, through two limiters. Whatever happens, what each bucket has
// used is the sum of what was really used of the settled ones and of what was
// estimated of the others.
//
//promise:usage-known-later
func TestA10ReservationsAddUp(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			shared := open()
			defer shared.Close()
			var runs atomic.Int64
			rapid.Check(t, func(t *rapid.T) {
				w := newReserveWorld(t, shared, fmt.Sprint(name, runs.Add(1)))
				for range rapid.IntRange(1, 25).Draw(t, "steps") {
					w.step()
					w.compare()
				}
			})
		})
	}
}

// reserveWorld is one run of the model beside the real thing. The limit for all is
// told apart by the domain, which is new in each run.
type reserveWorld struct {
	t        *rapid.T
	domain   string
	now      time.Time
	limiters [2]*headgate.Limiter
	model    account
	bookings []*booking
	number   int
}

func newReserveWorld(t *rapid.T, s store.Store, domain string) *reserveWorld {
	w := &reserveWorld{t: t, domain: domain, now: time.Now().Truncate(time.Millisecond), model: account{}}
	for i := range w.limiters {
		l, err := headgate.New(headgate.Options{
			Store: s, Rules: loadIn(t, domain, reserveRules), Now: func() time.Time { return w.now },
		})
		if err != nil {
			t.Fatal(err)
		}
		w.limiters[i] = l
	}
	return w
}

func (w *reserveWorld) limiter() *headgate.Limiter {
	return w.limiters[rapid.IntRange(0, 1).Draw(w.t, "node")]
}

func (w *reserveWorld) request(user string, hits int64) *headgate.Request {
	return &headgate.Request{Domain: w.domain, Descriptors: []headgate.Descriptor{{
		Entries: []descriptor.Entry{{Key: "user", Value: user}, {Key: "model", Value: "m"}}, Hits: hits,
	}}}
}

func (w *reserveWorld) step() {
	switch rapid.SampledFrom([]string{"reserve", "reserve", "again", "commit", "commit", "cancel", "wait"}).Draw(w.t, "step") {
	case "reserve":
		w.number++
		w.reserve(&booking{
			id: fmt.Sprintf("r%d", w.number), user: rapid.SampledFrom([]string{"a", "b"}).Draw(w.t, "user"),
			estimate: rapid.Int64Range(0, 900).Draw(w.t, "estimate"), made: w.now,
		}, true)
	case "again":
		if b := w.any(); b != nil {
			w.reserve(b, false)
		}
	case "commit":
		if b := w.any(); b != nil {
			w.settle(b, rapid.Int64Range(0, 1800).Draw(w.t, "actual"))
		}
	case "cancel":
		if b := w.any(); b != nil {
			w.settle(b, -1)
		}
	case "wait":
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(w.t, "seconds")) * time.Second)
	}
}

func (w *reserveWorld) any() *booking {
	if len(w.bookings) == 0 {
		return nil
	}
	return rapid.SampledFrom(w.bookings).Draw(w.t, "booking")
}

func (w *reserveWorld) reserve(b *booking, first bool) {
	var resp headgate.Response
	r, err := w.limiter().Reserve(context.Background(), w.request(b.user, b.estimate), reservation.Options{ID: b.id, TTL: time.Minute}, &resp)
	if err != nil {
		w.t.Fatal(err)
	}
	want := !first || w.model.fits(b.user, b.estimate)
	if resp.Allowed != want || (r.String() != "") != want {
		w.t.Fatalf("reserve %+v: %+v, want allowed=%v", b, resp, want)
	}
	if !want {
		return
	}
	if first {
		w.model.add(b.user, b.estimate)
		w.bookings = append(w.bookings, b)
	}
	b.texts = append(b.texts, r.String())
}

func (w *reserveWorld) settle(b *booking, actual int64) {
	r, err := reservation.Parse(rapid.SampledFrom(b.texts).Draw(w.t, "text"))
	if err != nil {
		w.t.Fatal(err)
	}
	var resp headgate.Response
	var outcome reservation.Outcome
	if actual < 0 {
		actual = 0
		outcome, err = w.limiter().Cancel(context.Background(), r, &resp)
	} else {
		outcome, err = w.limiter().Commit(context.Background(), r, reservation.Actual{Hits: []int64{actual}}, &resp)
	}
	if !w.now.Before(r.Expires()) {
		if err == nil {
			w.t.Fatalf("settled after its time: %v", outcome)
		}
		return
	}
	want := reservation.Settled
	if b.settled {
		want = reservation.SettledBefore
	}
	if err != nil || outcome != want || !resp.Allowed {
		w.t.Fatalf("settle %+v by %d: %v, %v, %+v, want %v", b, actual, outcome, err, resp, want)
	}
	if !b.settled {
		b.settled = true
		w.model.add(b.user, actual-b.estimate)
	}
}

func (w *reserveWorld) compare() {
	for _, user := range []string{"a", "b"} {
		var resp [1]headgate.Response
		if err := w.limiters[0].Peek(context.Background(), []headgate.Request{*w.request(user, 0)}, resp[:]); err != nil {
			w.t.Fatal(err)
		}
		for i, bucket := range bucketsOf(user) {
			v := &resp[0].Verdicts[i]
			if want := max(quotaOf(bucket)-w.model[bucket], 0); v.Decision.Remaining != want || v.Degraded != "" {
				w.t.Fatalf("%s: %+v, want remaining=%d", bucket, v.Decision, want)
			}
		}
	}
}

// TestA10OneSettlementWins lets reservations by one id race on two nodes, and then
// commits and cancellations of it: it is reserved once, one settlement wins, and the
// buckets say which.
func TestA10OneSettlementWins(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) { raceSettlements(t, open()) })
	}
}

// TestA10OnACluster does both where the marks and the buckets of a reservation lie on
// different servers.
func TestA10OnACluster(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	url := "redis+cluster://" + strings.Join(servers.Addrs(), ",")
	raceSettlements(t, openRedis(t, url))
	shared := openRedis(t, url)
	defer shared.Close()
	var runs atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		w := newReserveWorld(t, shared, fmt.Sprint("cluster", runs.Add(1)))
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			w.step()
			w.compare()
		}
	})
}

func raceSettlements(t *testing.T, s store.Store) {
	defer s.Close()
	var nodes [2]*headgate.Limiter
	for i := range nodes {
		l, err := headgate.New(headgate.Options{Store: s, Rules: loadIn(t, "race", reserveRules)})
		if err != nil {
			t.Fatal(err)
		}
		nodes[i] = l
	}
	for round := range 40 {
		req := &headgate.Request{Domain: "race", Descriptors: []headgate.Descriptor{{
			Entries: []descriptor.Entry{{Key: "user", Value: fmt.Sprint(round)}}, Hits: 10,
		}}}
		var reservations [8]reservation.Reservation
		var all sync.WaitGroup
		for i := range reservations { // all ask for the same one
			all.Go(func() {
				var resp headgate.Response
				var err error
				if reservations[i], err = nodes[i%2].Reserve(t.Context(), req, reservation.Options{ID: fmt.Sprint(round)}, &resp); err != nil || !resp.Allowed {
					t.Errorf("%+v, %v", resp, err)
				}
			})
		}
		all.Wait()
		var used, wins, before atomic.Int64
		for i := range 8 {
			all.Go(func() {
				var resp headgate.Response
				actual := reservation.Actual{Hits: []int64{int64(5 * i)}}
				outcome, err := nodes[i%2].Commit(t.Context(), reservations[i], actual, &resp)
				switch {
				case err != nil:
					t.Error(err)
				case outcome == reservation.Settled:
					wins.Add(1)
					used.Store(actual.Hits[0])
				case outcome == reservation.SettledBefore:
					before.Add(1)
				}
			})
		}
		all.Wait()
		var peek [1]headgate.Response
		if err := nodes[1].Peek(t.Context(), []headgate.Request{*req}, peek[:]); err != nil {
			t.Fatal(err)
		}
		if left := peek[0].Verdicts[1].Decision.Remaining; wins.Load() != 1 || before.Load() != 7 || left != 1500-used.Load() {
			t.Fatalf("round %d: %d wins, %d before, remaining %d, used %d", round, wins.Load(), before.Load(), left, used.Load())
		}
	}
}
