package loadgen

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/memstore"
)

// mostIn returns the most hits that l lets pass in any time of that length, whatever came before;
// ok is false for limits that say nothing of it: those on concurrency, bans and queues.
//
// A window lets its quota pass once, and a time of length d touches at most ceil(d/period)+1
// windows, or floor(d/period)+1 that glide. A bucket lets its burst pass, and what it refills.
func mostIn(l *limit.Limit, d time.Duration) (most int64, ok bool) {
	periods := float64(d) / float64(l.Period)
	switch {
	case l.Algorithm == limit.Concurrency || l.Algorithm == limit.Ban || l.Algorithm == limit.LeakyQueue:
		return 0, false
	case l.Calendar != nil: // the shortest month, and more than one window only where d is as long
		periods = float64(d) / float64(shortest(l.Calendar))
	case l.Algorithm.IsBucket():
		return sum(l.Capacity(), int64(math.Ceil(float64(l.Quota)*periods))), true
	case l.Algorithm == limit.SlidingLog:
		return product(l.Quota, int64(periods)+1), true
	}
	return product(l.Quota, int64(math.Ceil(periods))+1), true
}

// shortest is the least length of a window of a calendar, with an hour less for its clocks.
func shortest(c *limit.Calendar) time.Duration {
	const day = 24 * time.Hour
	days := map[limit.CalendarUnit]time.Duration{limit.CalendarDay: 1, limit.CalendarWeek: 7, limit.CalendarMonth: 28, limit.CalendarYear: 365}
	return days[c.Unit]*day - time.Hour
}

// sum and product are those of numbers of at least 0, and math.MaxInt64 where they are more.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func product(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}

// Bucket is what one limit counts in.
type Bucket struct {
	// Rule is the id of the rule, and Limit what it says; Key is what it counts by.
	Rule, Limit, Key string
	// Passed is what the run had let pass, Most what may be let pass in its time.
	Passed, Most int64
}

// Broken reports whether more passed than may.
func (b *Bucket) Broken() bool { return b.Passed > b.Most }

// Judge holds what was let pass against the rules.
type Judge struct {
	set     *rules.Set
	limiter *headgate.Limiter
	store   *memstore.Store
	request func(key int) headgate.Request
}

// NewJudge returns a Judge by rules for the requests that are sent about keys. Close it.
func NewJudge(set *rules.Set, request func(key int) headgate.Request) (*Judge, error) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, err
	}
	limiter, err := headgate.New(headgate.Options{Store: store, Rules: set})
	if err != nil {
		return nil, err
	}
	return &Judge{set, limiter, store, request}, nil
}

// Close ends the Judge.
func (j *Judge) Close() error { return j.store.Close() }

// Matches reports whether a rule is for the requests about a key.
func (j *Judge) Matches(ctx context.Context, key int) (bool, error) {
	request, responses := j.request(key), make([]headgate.Response, 1)
	for i := range request.Descriptors {
		request.Descriptors[i].Hits = 0
	}
	if err := j.limiter.Check(ctx, []headgate.Request{request}, responses); err != nil {
		return false, fmt.Errorf("judge: %w", err)
	}
	return len(responses[0].Verdicts) > 0 || j.ofTenants(&request), nil
}

// ofTenants reports whether a rule of tenants is for a descriptor of the request: tiers and
// accounts may have quotas for it, whether or not it has a limit of its own.
func (j *Judge) ofTenants(req *headgate.Request) bool {
	d := j.set.Domain(req.Domain)
	return d != nil && slices.ContainsFunc(req.Descriptors, func(of headgate.Descriptor) bool {
		_, ok := d.Tenant(of.Entries, time.Now)
		return ok
	})
}

// Buckets returns what was let pass of each bucket whose limit bounds it, those that are broken
// first. Buckets of rules that are synchronized, or decided by each node alone, are not among them:
// their bound depends on the nodes. Neither are those of tenants, who may have a quota of their own.
func (j *Judge) Buckets(ctx context.Context, r *Report) ([]Bucket, error) {
	all := map[string]*Bucket{}
	responses := make([]headgate.Response, 1)
	for key, passed := range r.Allowed {
		request := j.request(key)
		for i := range request.Descriptors {
			passed := product(int64(passed), request.Descriptors[i].Hits)
			peek := request
			peek.Descriptors = slices.Clone(request.Descriptors[i : i+1])
			peek.Descriptors[0].Hits = 0
			if err := j.limiter.Check(ctx, []headgate.Request{peek}, responses); err != nil {
				return nil, fmt.Errorf("judge: %w", err)
			}
			for v := range responses[0].Verdicts {
				j.count(all, &responses[0].Verdicts[v], &peek, passed, r.Lasted)
			}
		}
	}
	var list []Bucket
	for _, b := range all {
		list = append(list, *b)
	}
	slices.SortFunc(list, func(a, b Bucket) int {
		if a.Broken() != b.Broken() {
			if a.Broken() {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Rule+"\x00"+a.Limit+"\x00"+a.Key, b.Rule+"\x00"+b.Limit+"\x00"+b.Key)
	})
	return list, nil
}

// count adds what has passed to the bucket of a verdict, if its limit bounds it.
func (j *Judge) count(all map[string]*Bucket, v *headgate.Verdict, req *headgate.Request, passed int64, lasted time.Duration) {
	if v.Limit == nil || v.Rule == nil || v.Tenant > 0 || !v.Enforced() || !v.TookPart() {
		return
	}
	if c := v.Rule.Mode.Consistency; c == rules.Synced || c == rules.Local {
		return
	}
	most, ok := mostIn(v.Limit, lasted)
	if !ok {
		return
	}
	key := descriptor.Format(v.Entries(nil, req))
	id := v.Rule.ID + "\x00" + rules.LimitText(v.Limit) + "\x00" + key
	if all[id] == nil {
		all[id] = &Bucket{Rule: v.Rule.ID, Limit: rules.LimitText(v.Limit), Key: key, Most: most}
	}
	all[id].Passed = sum(all[id].Passed, passed)
}
