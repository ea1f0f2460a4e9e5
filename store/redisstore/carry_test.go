package redisstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// What is not a state of any kind, or a rotten one, is decided on by every algorithm.
func TestRottenStatesAreDecided(t *testing.T) {
	s, _ := openRedis(t)
	var limits []*limit.Limit
	for a := limit.SlidingWindow; a <= limit.Ban; a++ {
		for carry := limit.CarryUsed; carry <= limit.CarryNothing; carry++ {
			spec := limit.Spec{Algorithm: a, Quota: 10, Period: 10 * time.Second, Carry: carry}
			if a == limit.Ban {
				spec.BanFor = time.Second
			}
			if l, err := limit.New(spec); err == nil {
				limits = append(limits, l)
			}
		}
	}
	huge := strings.Repeat("9", 400)
	for _, value := range []string{
		"", "1", "1 2", "2 0 0", "4", "4abcdefg", "4abcdefgh", "4" + strings.Repeat("\xff", 700), "9", "9abcdefgabcdefg",
		"11 ", "11 1 2 3", "11 1 2 3 ", "11 1 2 3 1 2 3 4", "11 0 0 0 5 1790000000000000 0", "11 1 0 0 5 1790000000000000 0",
		"11 5 1 99999999999999999999 5 1790000000000000 0", "11 5 7 3 4abcdefg", "11 5 7 3 9abcdefgabcdefg", "11 5 7 3 11 5 7 3 2 1 1",
		"2 1790000000000000 15m80", "2 1790000000000000 0m80", "2 1790000000000000 m80", "2 1790000000000000 9999999d80", "2 -5 month3",
		"2 1790000000000000 parsec3", "1 1790000000000000 4 15m80", "1 1790000000000000 4 00080", "1 1790000000000000 4 00000080",
		"3 1 0 1 2 3", "3 1790000000000000 " + huge + " 4", "5 -" + huge + " 0", "6 " + huge + " " + huge, "2 " + huge + " 1", "10 1 2 3", huge,
	} {
		for i, l := range limits {
			for _, op := range []store.Op{store.Hit, store.Charge, store.Refund} {
				key := fmt.Sprintf("%.40q %d %d", value, i, op)
				if _, err := tryCommand(s, "SET", s.Name([]byte(key)), value); err != nil {
					t.Fatal(err)
				}
				r := takeAll(s, store.Take{Key: []byte(key), Limit: l, Hits: 1, Op: op})[0]
				if r.Err != nil || r.Remaining < 0 || r.Remaining > r.Limit || r.ResetAfter < 0 {
					t.Errorf("%.60q by %v %v, op %d: %+v", value, l.Algorithm, l.Carry, op, r)
				}
			}
		}
	}
}
