package fleetusage_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/overload"
	"github.com/headgate/headgate/overload/fleetusage"
	"github.com/headgate/headgate/store/memstore"
)

// A fleet of 20,000 requests per second. In place of the memory store stands
// one that its nodes share.
func Example() {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		panic(err)
	}
	defer buckets.Close()
	usage, err := fleetusage.New(fleetusage.Options{Store: buckets, Capacity: 20_000, Name: "checkout"})
	if err != nil {
		panic(err)
	}
	fleet, err := overload.NewFleet(overload.FleetOptions{Usage: usage.Usage}, time.Now())
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	gate := overload.NewGate(fleet, nil)
	go usage.Run(ctx, gate.TotalAdmitted)
	// Until the second report the usage is unknown, and nothing is shed.
	_, decision := gate.Admit(overload.P3, time.Now())
	fmt.Println(usage.Usage().Capacity, decision.Admitted(), gate.TotalAdmitted())
	// Output: 0 true 1
}
