package ledger

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
)

// day is the limit of all quotas and payers here. The ledger goes by what the store says is left of them.
var day = limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1000, Period: 24 * time.Hour})

const now = limit.Micros(1_700_000_000_000_000)

// gone has paid for a quota and is not offered any more.
const gone = -1

// quotaFacts are what was reserved on a quota, what was used, and what it has left. by is 1 + the payer that
// has paid for it, 0 where it has itself, or gone. told is what the reservation says was charged, 0 for all.
type quotaFacts struct {
	reserved, used, left int64
	by                   int
	told                 int64
	offer                int
	key                  string
}

// payerFacts are what a payer has left. One with a share is the pool, others are top-ups.
type payerFacts struct {
	left    int64
	share   int64
	isPool  bool
	tightly bool // its share counts too
}

// facts are what is known of one reservation.
type facts struct {
	path   bool
	quotas []quotaFacts
	payers []payerFacts
	age    time.Duration // since it was charged
}

func (f *facts) payer(k int) (p Payer, keys string) {
	p = Payer{Subject: tenant.Subject{Key: "tenant", Value: "acme"}}
	if facts := &f.payers[k]; facts.isPool {
		p.Pool = &tenant.Pool{Limit: tenant.Limit{Limit: day, Name: "pool"}}
		if facts.tightly {
			p.Pool.PerKey = &tenant.KeyCap{Entry: "api_key", Limit: tenant.Limit{Limit: day, Name: "share"}}
		}
	} else {
		p.Grant = &tenant.Grant{ID: fmt.Sprint("top-up ", k), Ask: day, Shown: day}
	}
	keys = string(p.AppendKey(nil))
	if p.Share() != nil {
		keys += string(p.AppendShareKey(nil, "k1"))
	}
	return p, keys
}

func (f *facts) takes(hits func(q *quotaFacts) int64) (takes []store.Take) {
	for i := range f.quotas {
		q := &f.quotas[i]
		key := q.key
		if key == "" {
			key = fmt.Sprint("quota ", i)
		}
		takes = append(takes, store.Take{Key: []byte(key), Limit: day, Hits: hits(q)})
	}
	return takes
}

// read returns a ledger that has read what a store with these facts says, and the reservation as its holder
// has it.
func (f *facts) read(t rapid.TB) (g *Ledger, r reservation.Reservation) {
	g = new(Ledger)
	g.PayOnce(f.path)
	takes := f.takes(func(q *quotaFacts) int64 { return q.reserved })
	for i := range f.quotas {
		offer, known := g.Offer(f.quotas[i].offer, 1)
		for k := range f.payers {
			if p, _ := f.payer(k); !known {
				g.AddPayer(p, "k1")
			}
		}
		g.AddQuota(takes, i, offer)
	}
	g.Use(f.takes(func(q *quotaFacts) int64 { return q.used }))

	notes := Notes{Domain: "d", Claims: []byte("claims"), Limit: day}
	left := map[string]int64{string(notes.AppendKey(nil, reservation.MarkMade)): 0}
	var charges []reservation.Charge
	for i := range f.quotas {
		q := &f.quotas[i]
		left[string(takes[i].Key)] = q.left
		charge := reservation.Charge{Bucket: reservation.Bucket(takes[i].Key), Hits: q.reserved}
		if q.by != 0 {
			left[string(notes.AppendKey(nil, reservation.MarkCovered, NameOf(takes, i)))] = 0
			keys := "of a top-up that is over"
			if q.by != gone {
				_, keys = f.payer(q.by - 1)
			}
			left[string(notes.AppendKey(nil, reservation.MarkPaid, NameOf(takes, i), NameOfPayer(keys)))] = 0
			charge.Bucket = reservation.Bucket([]byte(keys))
		}
		if q.told != 0 {
			charge.Hits = q.told
		}
		charges = append(charges, charge)
	}
	for k := range f.payers {
		p, _ := f.payer(k)
		left[string(p.AppendKey(nil))] = f.payers[k].left
		if p.Share() != nil {
			left[string(p.AppendShareKey(nil, "k1"))] = f.payers[k].share
		}
	}
	asked := g.AppendLookup(nil, takes, &notes, true)
	results := make([]store.Result, len(asked))
	for i := range asked {
		remaining, ok := left[string(asked[i].Key)]
		if results[i].Remaining = 1; ok { // 1: no mark
			results[i].Remaining = remaining
		}
	}
	if made, partly := g.Read(results); !IsMarked(&made) || partly {
		t.Fatalf("made %+v, partly %v", made, partly)
	}
	return g, reservation.Made([]byte("claims"), charges, time.UnixMicro(int64(now)).Add(time.Hour))
}

// changes are what each is charged when a reservation is settled, or given back if that is negative.
type changes struct{ quotas, payers, shares []int64 }

func (f *facts) settle(t rapid.TB) (c changes, g *Ledger) {
	g, r := f.read(t)
	age := Age{Charged: now - limit.Micros(f.age/time.Microsecond), Now: now}
	takes := f.takes(func(q *quotaFacts) int64 { return q.used })
	for i := range takes {
		if !g.IsCovered(i) {
			age.SetCharge(&takes[i], f.quotas[i].used-f.quotas[i].reserved)
		}
	}
	of := map[string]int64{}
	n := 0
	g.Settle(r, takes, age, func(key []byte, take store.Take) int {
		of[string(key)] += signed(t, &take)
		n++
		return n - 1
	})
	for i := range takes {
		c.quotas = append(c.quotas, signed(t, &takes[i]))
	}
	for k := range f.payers {
		p, _ := f.payer(k)
		c.payers = append(c.payers, of[string(p.AppendKey(nil))])
		if p.Share() != nil {
			c.shares = append(c.shares, of[string(p.AppendShareKey(nil, "k1"))])
		}
	}
	return c, g
}

// signed returns what a take charges. None of them may be a hit, which could be done twice.
func signed(t rapid.TB, take *store.Take) int64 {
	switch take.Op {
	case store.Charge:
		return take.Hits
	case store.Refund:
		return -take.Hits
	}
	t.Fatalf("%q is settled by operation %v", take.Key, take.Op)
	return 0
}

func topUps(left ...int64) (all []payerFacts) {
	for _, n := range left {
		all = append(all, payerFacts{left: n})
	}
	return all
}

func pool(left, share int64) payerFacts {
	return payerFacts{left: left, share: share, isPool: true, tightly: true}
}

// Who has paid settles, as far as it can; then the quota, the first payer that has all of the rest, and at
// last the quota as a debt.
func TestSettle(t *testing.T) {
	two := func(path bool, offer int) facts {
		return facts{path: path, payers: topUps(50), quotas: []quotaFacts{
			{reserved: 10, used: 4, by: 1}, {reserved: 7, used: 6, by: 1, offer: offer},
		}}
	}
	for name, c := range map[string]struct {
		facts
		want changes
	}{
		"a quota gets back what it paid":                 {facts{quotas: []quotaFacts{{reserved: 10, used: 4}}}, changes{quotas: []int64{-6}}},
		"a quota pays what is missing":                   {facts{quotas: []quotaFacts{{reserved: 10, used: 14, left: 4}}}, changes{quotas: []int64{4}}},
		"a quota that nobody stands in for owes":         {facts{quotas: []quotaFacts{{reserved: 10, used: 14}}}, changes{quotas: []int64{4}}},
		"who has paid gets back":                         {facts{quotas: []quotaFacts{{reserved: 10, used: 4, by: 1}}, payers: topUps(0)}, changes{[]int64{0}, []int64{-6}, nil}},
		"who has paid gets all back":                     {facts{quotas: []quotaFacts{{reserved: 10, by: 1}}, payers: topUps(0)}, changes{[]int64{0}, []int64{-10}, nil}},
		"what is over is others'":                        {facts{quotas: []quotaFacts{{reserved: 10, by: 1}}, payers: topUps(0), age: 48 * time.Hour}, changes{[]int64{0}, []int64{0}, nil}},
		"who has paid pays on with what is left":         {facts{quotas: []quotaFacts{{reserved: 10, used: 15, left: 99, by: 1}}, payers: topUps(5)}, changes{[]int64{0}, []int64{5}, nil}},
		"the quota pays the rest":                        {facts{quotas: []quotaFacts{{reserved: 10, used: 15, left: 5, by: 1}}, payers: topUps(4, 99)}, changes{[]int64{5}, []int64{0, 0}, nil}},
		"another one pays the rest":                      {facts{quotas: []quotaFacts{{reserved: 10, used: 15, left: 4, by: 1}}, payers: topUps(4, 5)}, changes{[]int64{0}, []int64{0, 5}, nil}},
		"the first one pays":                             {facts{quotas: []quotaFacts{{reserved: 1, used: 11, left: 9}}, payers: topUps(10, 20, 30)}, changes{[]int64{0}, []int64{10, 0, 0}, nil}},
		"the first one that has all of it pays":          {facts{quotas: []quotaFacts{{reserved: 1, used: 11, left: 9}}, payers: topUps(9, 10, 30)}, changes{[]int64{0}, []int64{0, 10, 0}, nil}},
		"nobody has all of it":                           {facts{quotas: []quotaFacts{{reserved: 1, used: 11, left: 9}}, payers: topUps(9, 9)}, changes{[]int64{10}, []int64{0, 0}, nil}},
		"a quota that owes has nothing left":             {facts{quotas: []quotaFacts{{reserved: 10, used: 4, left: -3}}, payers: topUps(99)}, changes{[]int64{-6}, []int64{0}, nil}},
		"who is gone keeps what it has":                  {facts{quotas: []quotaFacts{{reserved: 10, used: 4, by: gone}}, payers: topUps(99)}, changes{[]int64{0}, []int64{0}, nil}},
		"for who is gone the quota pays on":              {facts{quotas: []quotaFacts{{reserved: 10, used: 15, left: 5, by: gone}}, payers: topUps(99)}, changes{[]int64{5}, []int64{0}, nil}},
		"a pool pays with the share of the key":          {facts{quotas: []quotaFacts{{reserved: 10, used: 15}}, payers: []payerFacts{pool(99, 5)}}, changes{[]int64{0}, []int64{5}, []int64{5}}},
		"a share that is too small leaves it to others":  {facts{quotas: []quotaFacts{{reserved: 10, used: 15}}, payers: []payerFacts{pool(99, 4), {left: 5}}}, changes{[]int64{0}, []int64{0, 5}, []int64{0}}},
		"a share gets back too":                          {facts{quotas: []quotaFacts{{reserved: 10, used: 1, by: 1}}, payers: []payerFacts{pool(0, 0)}}, changes{[]int64{0}, []int64{-9}, []int64{-9}}},
		"no more goes back than the reservation tells":   {facts{quotas: []quotaFacts{{reserved: 10, used: 4, by: 1, told: 6}}, payers: topUps(0)}, changes{[]int64{0}, []int64{-2}, nil}},
		"nor more than it costs, whatever is told":       {facts{quotas: []quotaFacts{{reserved: 10, used: 4, by: 1, told: 20}}, payers: topUps(0)}, changes{[]int64{0}, []int64{-6}, nil}},
		"one payer pays for each of two quotas":          {two(false, 1), changes{[]int64{0, 0}, []int64{-7}, nil}},
		"one payer pays the dearest of two, by the path": {two(true, 1), changes{[]int64{0, 0}, []int64{-4}, nil}},
		"limits of one quota are paid once":              {two(false, 0), changes{[]int64{0, 0}, []int64{-4}, nil}},
		"two that lack the same are paid for in order": {facts{payers: topUps(10, 10), quotas: []quotaFacts{
			{used: 10}, {used: 10, offer: 1}, {used: 10, offer: 2},
		}}, changes{[]int64{0, 0, 10}, []int64{10, 10}, nil}},
	} {
		if got, _ := c.settle(t); !slices.Equal(got.quotas, c.want.quotas) || !slices.Equal(got.payers, c.want.payers) || !slices.Equal(got.shares, c.want.shares) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Whatever was reserved, used and left: all that was used is paid, once; nobody pays more than it has but a
// quota that all others leave to owe; and a share pays what its pool does.
func TestAnySettlementIsPaidOnce(t *testing.T) {
	amount := rapid.Int64Range(0, 20)
	rapid.Check(t, func(t *rapid.T) {
		var f facts
		if rapid.Bool().Draw(t, "pool") {
			f.payers = append(f.payers, pool(amount.Draw(t, "pool left"), amount.Draw(t, "share left")))
		}
		for range rapid.IntRange(0, 3).Draw(t, "top-ups") {
			f.payers = append(f.payers, payerFacts{left: amount.Draw(t, "left")})
		}
		want := int64(0)
		for i := range rapid.IntRange(1, 3).Draw(t, "quotas") {
			q := quotaFacts{
				reserved: amount.Draw(t, "reserved"), used: amount.Draw(t, "used"), left: amount.Draw(t, "left of the quota"),
				by: rapid.IntRange(0, len(f.payers)).Draw(t, "by"), offer: i,
			}
			if q.reserved == 0 {
				q.by = 0
			}
			f.quotas = append(f.quotas, q)
			want += q.used - q.reserved
		}
		c, _ := f.settle(t)
		got := int64(0)
		for _, change := range slices.Concat(c.quotas, c.payers) {
			got += change
		}
		if got != want {
			t.Fatalf("%d are charged in all, want %d: %v of %+v", got, want, c, f)
		}
		for k, change := range c.payers {
			if p := &f.payers[k]; change > p.left || p.isPool && (change > p.share || change != c.shares[0]) {
				t.Fatalf("payer %d: %v of %+v", k, c, f)
			}
		}
		for i, change := range c.quotas {
			if change <= f.quotas[i].left {
				continue
			}
			for k := range f.payers {
				room := f.payers[k].left - c.payers[k]
				if f.payers[k].isPool {
					room = min(room, f.payers[k].share-c.payers[k])
				}
				if k+1 != f.quotas[i].by && room >= change {
					t.Fatalf("quota %d owes what payer %d has: %v of %+v", i, k, c, f)
				}
			}
		}
	})
}

// Nobody is asked who has paid where the reservation says that quotas were charged all, also where two of its
// takes are on one bucket.
func TestMayPay(t *testing.T) {
	for name, c := range map[string]struct {
		facts
		want bool
	}{
		"all was charged and enough":       {facts{quotas: []quotaFacts{{reserved: 10, used: 10}}, payers: topUps(9)}, false},
		"two takes on one bucket":          {facts{quotas: []quotaFacts{{reserved: 10, used: 3, key: "same"}, {reserved: 10, used: 4, key: "same"}}}, false},
		"more was used, and nobody offers": {facts{quotas: []quotaFacts{{reserved: 10, used: 11}}}, false},
		"more was used":                    {facts{quotas: []quotaFacts{{reserved: 10, used: 11}}, payers: topUps(0)}, true},
		"less was charged":                 {facts{quotas: []quotaFacts{{reserved: 10, used: 1, told: 9}}}, true},
		"something else was charged":       {facts{quotas: []quotaFacts{{reserved: 10, used: 1, by: 1}}, payers: topUps(0)}, true},
		"nothing was reserved":             {facts{quotas: []quotaFacts{{}}, payers: topUps(9)}, false},
	} {
		if g, r := c.read(t); g.MayPay(r) != c.want {
			t.Errorf("%s: want %v", name, c.want)
		}
	}
}

// What has paid is told take by take, and nothing of it is left once it is said that the reservation was not
// made.
func TestAppendPaid(t *testing.T) {
	f := facts{payers: topUps(9, 9), quotas: []quotaFacts{{reserved: 1}, {reserved: 2, by: 2, offer: 1}, {reserved: 3, by: gone, offer: 2}}}
	g, _ := f.read(t)
	_, keys := f.payer(1)
	want := []Paid{{1, reservation.Bucket([]byte(keys))}, {Take: 2}}
	if got := g.AppendPaid(nil); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	g.Forget()
	if got := g.AppendPaid(nil); len(got) != 0 || g.IsCovered(1) {
		t.Errorf("%v", got)
	}
	g.Empty()
	if g.HasQuotas() || g.IsHuge() {
		t.Error("an empty ledger knows of something")
	}
}

// The take on a quota is answered by who pays for it, and by whichever of a pool and a share of it has less left.
func TestSpeaker(t *testing.T) {
	f := facts{payers: []payerFacts{pool(50, 20), {left: 50}}, quotas: []quotaFacts{
		{reserved: 1, used: 6, left: 5}, {reserved: 1, used: 8, by: 1, offer: 1}, {reserved: 1, used: 9, by: 2, offer: 2},
	}}
	_, g := f.settle(t)
	results := []store.Result{ // of the pool, the share and the top-up, as they were added
		{Decision: limit.Decision{Remaining: 43}}, {Decision: limit.Decision{Remaining: 13}}, {Decision: limit.Decision{Remaining: 42}},
	}
	if _, _, ok := g.Speaker(0, results, now); ok {
		t.Error("something else speaks for a quota that pays itself")
	}
	if said, r, ok := g.Speaker(1, results, now); !ok || said.Source != tenant.FromPool || said.Name != "share" || said.Hits != 8 || r.Remaining != 13 {
		t.Errorf("the share says %+v, %+v, %v", said, r, ok)
	}
	if said, r, ok := g.Speaker(2, results, now); !ok || said.Source != tenant.FromTopUp || said.Name != tenant.TopUpName || said.Hits != 9 || r.Remaining != 42 {
		t.Errorf("the top-up says %+v, %+v, %v", said, r, ok)
	}
	results[1].Remaining = 44
	if said, _, _ := g.Speaker(1, results, now); said.Name != "pool" {
		t.Errorf("%q says it though the pool has less left", said.Name)
	}
	results[1].Err = errors.New("no answer")
	if said, r, ok := g.Speaker(1, results, now); !ok || r.Err == nil || said != (Said{}) {
		t.Errorf("without an answer on the share: %+v, %+v, %v", said, r, ok)
	}
}

// Takes on one bucket are told apart by their order.
func TestNameOf(t *testing.T) {
	takes := []store.Take{{Key: []byte("a")}, {Key: []byte("b")}, {Key: []byte("a")}}
	for i, want := range []descriptor.Entry{{Key: "0", Value: "a"}, {Key: "0", Value: "b"}, {Key: "1", Value: "a"}} {
		if got := NameOf(takes, i); got != want {
			t.Errorf("take %d is %v, want %v", i, got, want)
		}
	}
}
