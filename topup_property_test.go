package headgate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/tenant"
)

// yearly is a limit that does not refill while a test runs.
func yearly(n int64, name string) tenant.Limit {
	return tenant.Limit{Limit: limit.Must(limit.Spec{Quota: n, Period: limit.MaxPeriod}), Name: name}
}

// tally is what was used beyond quotas, by what it was taken from.
type tally struct {
	sync.Mutex
	used map[string]int64
}

func (s *tally) add(r *headgate.Response, who, user string) {
	v := &r.Verdicts[0]
	if !r.Allowed {
		return
	}
	s.Lock()
	defer s.Unlock()
	switch v.Source {
	case tenant.FromTopUp:
		s.used[fmt.Sprintf("%s top-up of %d", who, v.Limit.Quota)] += v.Hits
	case tenant.FromPool:
		s.used[who+" pool"] += v.Hits
		s.used[who+" pool for "+user] += v.Hits
	default:
		s.used[who+" quota"] += v.Hits
	}
}

// TestI5NoMoreThanGrantedUnderLoad: eight goroutines on two limiters that share a store
// use quotas, pools and top-ups to the last hit, and not one more.
func TestI5NoMoreThanGrantedUnderLoad(t *testing.T) {
	now := time.Now()
	tiers, err := tenant.NewTiers([]tenant.Tier{{
		Name:   "free",
		Quotas: map[string]*tenant.Quota{tenant.Default: {Limits: []tenant.Limit{yearly(20, "q")}}},
		Pool:   &tenant.Pool{Limit: yearly(70, "p"), PerKey: &tenant.KeyCap{Entry: "user", Limit: yearly(30, "k")}},
	}}, "")
	if err != nil {
		t.Fatal(err)
	}
	var accounts []tenant.Account
	want := map[string]int64{}
	for i, who := range []string{"a", "b", "c"} {
		account := tenant.Account{Subject: apiKey(who)}
		for j := range 3 {
			hits := int64(40 + 10*i + j)
			account.TopUps = append(account.TopUps, tenant.TopUp{
				ID: fmt.Sprint("t", j), Hits: hits, Term: tenant.Term{From: now.Add(-time.Hour), Until: now.Add(time.Duration(j+1) * time.Hour)},
			})
			want[fmt.Sprintf("%s top-up of %d", who, hits)] = hits
		}
		accounts = append(accounts, account)
		want[who+" quota"], want[who+" pool"] = 20, 70
		want[who+" pool for u"], want[who+" pool for v"] = 30, 30
		want[who+" pool for "] = 10
	}
	server := testserver.Redis(t, testserver.RedisConfig{})
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, stores := range map[string][2]store.Store{
		"memory":                    {memory, memory},
		"redis, denials remembered": {denial.New(openRedis(t, server.URL()), denial.Options{}), denial.New(openRedis(t, server.URL()), denial.Options{})},
	} {
		t.Run(name, func(t *testing.T) {
			var limiters [2]*headgate.Limiter
			for i := range limiters {
				l, err := headgate.New(headgate.Options{Store: stores[i], Rules: load(t, "domain: d\ndescriptors: [{key: api_key, tenant: true}]")})
				if err != nil {
					t.Fatal(err)
				}
				l.SetTenants(tenant.NewSnapshot(tiers, slices.Values(accounts)))
				limiters[i] = l
			}
			sum := &tally{used: map[string]int64{}}
			ask := func(i int, who, user string, hits int64) bool {
				d := on("api_key:" + who + ",user:" + user)
				if user == "" {
					d = on("api_key:" + who)
				}
				d.Hits = hits
				responses := make([]headgate.Response, 1)
				if err := limiters[i%2].Check(context.Background(), []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{d}}}, responses); err != nil {
					t.Error(err)
				}
				if reason := responses[0].Degraded(); reason != store.NoReason {
					t.Errorf("degraded: %v", reason)
				}
				sum.add(&responses[0], who, user)
				return responses[0].Allowed
			}
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					random := rand.New(rand.NewPCG(uint64(i), 7))
					for range 120 {
						ask(i, []string{"a", "b", "c"}[random.IntN(3)], []string{"u", "v"}[random.IntN(2)], 1+random.Int64N(4))
					}
				})
			}
			all.Wait()
			// What is left goes hit by hit.
			for _, who := range []string{"a", "b", "c"} {
				for _, user := range []string{"u", "v", ""} {
					for i := 0; ask(i, who, user, 1); i++ {
					}
				}
			}
			if got, want := fmt.Sprint(sum.used), fmt.Sprint(want); got != want {
				t.Errorf("used\n%s, want\n%s", got, want)
			}
		})
	}
}

// TestI5NeverMoreThanGranted: over the whole term of a top-up, whenever that is, no more
// than its hits pass by it, by two limiters of which one is up to an hour ahead; and
// while hits are left, who asks for one gets it.
func TestI5NeverMoreThanGranted(t *testing.T) {
	const micros = time.Microsecond
	rapid.Check(t, func(rt *rapid.T) {
		within := func(name string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(1, int64(most/micros)).Draw(rt, name)) * micros
		}
		from := tenant.EarliestTopUp.Add(within("from", 80*365*24*time.Hour))
		term := within("term", tenant.MaxTopUpTerm)
		hits := rapid.Int64Range(1, 30).Draw(rt, "hits")
		account := tenant.Account{Subject: apiKey("k"), TopUps: []tenant.TopUp{{ID: "t", Hits: hits, Term: tenant.Term{From: from, Until: from.Add(term)}}}}
		if err := account.Validate(); err != nil {
			rt.Fatal(err)
		}
		tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "free", Quotas: map[string]*tenant.Quota{tenant.Default: quota("", "0/second")}}}, "")
		if err != nil {
			rt.Fatal(err)
		}
		now, ahead := from, within("ahead", time.Hour)
		shared, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(now) }})
		if err != nil {
			rt.Fatal(err)
		}
		var limiters [2]*headgate.Limiter
		for i, ahead := range []time.Duration{0, ahead} {
			limiters[i], err = headgate.New(headgate.Options{
				Store: shared, Rules: load(t, "domain: d\ndescriptors: [{key: api_key, tenant: true}]"),
				Now: func() time.Time { return now.Add(ahead) },
			})
			if err != nil {
				rt.Fatal(err)
			}
			limiters[i].SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account{account})))
		}
		// Before it begins, up to where it ends, and its first and last instants.
		at := []time.Duration{-ahead, -micros, 0, term - micros, term}
		for range rapid.IntRange(0, 40).Draw(rt, "requests") {
			at = append(at, within("at", term))
		}
		slices.Sort(at)
		var passed int64
		for _, after := range at {
			now = from.Add(after)
			which := rapid.IntRange(0, 1).Draw(rt, "limiter")
			d := on("api_key:k")
			d.Hits = rapid.Int64Range(1, 5).Draw(rt, "n")
			responses := make([]headgate.Response, 1)
			if err := limiters[which].Check(t.Context(), []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{d}}}, responses); err != nil {
				rt.Fatal(err)
			}
			sees := after
			if which == 1 {
				sees += ahead
			}
			inForce, fits := sees >= 0 && sees < term, passed+d.Hits <= hits
			if responses[0].Allowed != (inForce && fits) {
				rt.Fatalf("%v after its begin, of %v: %d of %d hits are used, %d more: allowed=%t", sees, term, passed, hits, d.Hits, responses[0].Allowed)
			}
			if responses[0].Allowed {
				passed += d.Hits
			}
		}
	})
}
