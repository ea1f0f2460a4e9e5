package topkeys

import (
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestZZ(t *testing.T) {
	set := load(t, twoRules)
	a := newAsked(set.Rules()[0])
	a.resp.Allowed = true
	a.req.Descriptors[0].Entries[0].Value = "user-000001"
	const n = 30_000_000
	_ = math.MaxInt32
	_ = rand.Uint64
	for range 3 {
		seen := New(Options{})
		seen.SetRules(set)
		for range 1_000_000 {
			seen.Decided(&a.req, &a.resp, 0)
		}
		seen.tick(time.Now(), time.Second/30)
		start := cpu()
		for i := range n {
			seen.Decided(&a.req, &a.resp, 0)
			if i%10_000_000 == 0 {
				seen.tick(time.Now(), time.Second)
			}
		}
		fmt.Println("allowed", float64(cpu()-start)/n, seen.total.interval(), seen.Stats().Seen)
		a.resp.Allowed = false
		start = cpu()
		for i := range n {
			seen.Decided(&a.req, &a.resp, 0)
			if i%10_000_000 == 0 {
				seen.tick(time.Now(), time.Second)
			}
		}
		fmt.Println("denied", float64(cpu()-start)/n)
		a.resp.Allowed = true
		all := tracker(set, 64)
		start = cpu()
		for range n/10 {
			all.Decided(&a.req, &a.resp, 0)
		}
		fmt.Println("all, one key", float64(cpu()-start)/n*10)
		users := make([]string, 100000)
		for i := range users { users[i] = fmt.Sprintf("user-%06d", i) }
		start = cpu()
		for i := range n/10 {
			a.req.Descriptors[0].Entries[0].Value = users[i%len(users)]
			all.Decided(&a.req, &a.resp, 0)
		}
		fmt.Println("all, new keys", float64(cpu()-start)/n*10)
	}
}
