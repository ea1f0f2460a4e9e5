package main

import (
	"fmt"
	"math/rand/v2"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

// workload is a kind of request. It is comparable.
type workload struct {
	descriptors int
	// over asks under limits that are used up by the first request.
	over bool
	// rate is how many requests are due each second, load the same in percent of what
	// the system answers when it is asked again as soon as there is an answer. That is
	// how it is asked where both are 0.
	rate, load int
}

// isPaced reports whether requests are due at set times.
func (w workload) isPaced() bool { return w.rate > 0 || w.load > 0 }

// passes is how often each request is made before measuring: once, so that each
// bucket is there; and until nearly all of those over the limit have been denied.
func (w workload) passes() int {
	if w.over {
		return 5
	}
	return 1
}

// String returns what reports call the workload.
func (w workload) String() string {
	name := fmt.Sprintf("%d descriptor", w.descriptors)
	if w.descriptors > 1 {
		name += "s"
	}
	if w.over {
		name += ", over limit"
	}
	switch {
	case w.load > 0:
		name += fmt.Sprintf(", %d %% of the most that it answers", w.load)
	case w.rate > 0:
		name += fmt.Sprintf(", %d requests/s", w.rate)
	}
	return name
}

const domain = "bench"

// ruleFile is read by Headgate and by envoyproxy/ratelimit alike.
const ruleFile = `domain: bench
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000000}}
  - {key: address, rate_limit: {unit: hour, requests_per_unit: 1000000000}}
  - {key: route, rate_limit: {unit: hour, requests_per_unit: 1000000000}}
  - {key: over_user, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: over_address, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: over_route, rate_limit: {unit: day, requests_per_unit: 1}}
`

// names are the entry keys of the rules, in the order in which requests have
// them.
var names = [...]string{"user", "address", "route"}

// named is one descriptor of one entry.
type named struct{ key, value string }

// descriptorsOf returns the descriptors of each request. Each descriptor of a
// request has a value of its own.
func (w workload) descriptorsOf(keys int) [][]named {
	random := rand.New(rand.NewPCG(1, 2))
	orders := make([][]int, w.descriptors)
	for d := range orders {
		orders[d] = random.Perm(keys)
	}
	all := make([][]named, keys)
	for i := range all {
		for d := range w.descriptors {
			key := names[d]
			if w.over {
				key = "over_" + key
			}
			all[i] = append(all[i], named{key, fmt.Sprintf("value-%06d", orders[d][i])})
		}
	}
	return all
}

// messages returns one marshalled request for each key.
func (w workload) messages(keys int) ([][]byte, error) {
	all := make([][]byte, keys)
	for i, descriptors := range w.descriptorsOf(keys) {
		r := &pb.RateLimitRequest{Domain: domain}
		for _, d := range descriptors {
			r.Descriptors = append(r.Descriptors, &common.RateLimitDescriptor{
				Entries: []*common.RateLimitDescriptor_Entry{{Key: d.key, Value: d.value}},
			})
		}
		var err error
		if all[i], err = proto.Marshal(r); err != nil {
			return nil, err
		}
	}
	return all, nil
}
