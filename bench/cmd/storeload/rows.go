package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/redisstore"
)

// workload is what the callers ask for.
type workload struct {
	name string
	spec limit.Spec
	// takes is the number of takes of a request; several are a group.
	takes int
	// keys is the number of different keys; 0 means that of the settings.
	keys int
	// over says that the limit is used up.
	over bool
	// paced asks at a set rate, not as fast as answers come.
	paced bool
	// callers is how many ask side by side; 0 means that of the settings.
	callers int
}

const plenty = 1_000_000_000

var (
	sliding  = limit.Spec{Algorithm: limit.SlidingWindow, Quota: plenty, Period: time.Hour}
	fixed    = limit.Spec{Algorithm: limit.FixedWindow, Quota: plenty, Period: time.Hour}
	gcra     = limit.Spec{Algorithm: limit.GCRA, Quota: plenty, Period: time.Hour}
	spent    = limit.Spec{Algorithm: limit.SlidingWindow, Quota: 1, Period: 24 * time.Hour}
	one      = workload{name: "1 key of 100,000", spec: sliding, takes: 1}
	three    = workload{name: "3 keys of 100,000, all or nothing", spec: sliding, takes: 3}
	oneFixed = workload{name: "1 key of 100,000, fixed window", spec: fixed, takes: 1}
	oneGCRA  = workload{name: "1 key of 100,000, gcra", spec: gcra, takes: 1}
	hot      = workload{name: "one hot key", spec: sliding, takes: 1, keys: 1}
	few      = workload{name: "1 key of 100", spec: sliding, takes: 1, keys: 100}
	over     = workload{name: "over the limit, 1 key of 10,000", spec: spent, takes: 1, keys: 10_000, over: true}
	calm     = workload{name: "1 key of 100,000, at a moderate rate", spec: sliding, takes: 1, paced: true}
)

// system is a way to ask.
type system struct {
	name string
	mode *store.Mode
	// local says that Redis is not asked.
	local bool
	open  func(o redisstore.Options) (store.Store, error)
}

var (
	plain     = system{name: "each alone", open: openPlain}
	coalesced = system{name: "coalesced", open: openCoalesced}
	forgetful = system{name: "coalesced, states not remembered", open: openForgetful}
	remembers = system{name: "coalesced, denials remembered", open: openRemembering}
	leased    = system{name: "leased", mode: &store.Mode{Consistency: store.Leased}, open: openLeased}
)

// join opens the store of the one node of a fleet, as the server does: window counters are
// integers from when each node that is alive has said that it reads them.
func join(o redisstore.Options) (*redisstore.Store, error) {
	s, err := redisstore.New(o)
	if err != nil {
		return nil, err
	}
	if _, err := s.Attend(context.Background(), "storeload", time.Hour); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func openPlain(o redisstore.Options) (store.Store, error) {
	o.NoCoalescing = true
	return join(o)
}

func openForgetful(o redisstore.Options) (store.Store, error) {
	o.Remembered = -1
	return join(o)
}

func openCoalesced(o redisstore.Options) (store.Store, error) { return join(o) }

func openRemembering(o redisstore.Options) (store.Store, error) {
	s, err := join(o)
	if err != nil {
		return nil, err
	}
	return denial.New(s, denial.Options{}), nil
}

func openLeased(o redisstore.Options) (store.Store, error) {
	s, err := join(o)
	if err != nil {
		return nil, err
	}
	return lease.New(lease.Options{Store: s, Nodes: func() int { return 1 }}), nil
}

// row is a line of the report.
type row struct {
	workload workload
	system   system
}

// String names the row.
func (r row) String() string { return fmt.Sprintf("%s: %s", r.workload.name, r.system.name) }

var rows = []row{
	{one, plain}, {one, coalesced}, {one, forgetful},
	{oneFixed, plain}, {oneFixed, coalesced},
	{oneGCRA, plain}, {oneGCRA, coalesced},
	{three, plain}, {three, coalesced},
	{hot, plain}, {hot, coalesced}, {hot, leased},
	{few, plain}, {few, coalesced}, {few, leased},
	{over, plain}, {over, coalesced}, {over, remembers},
	{calm, plain}, {calm, coalesced},
}
