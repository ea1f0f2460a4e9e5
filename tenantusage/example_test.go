package tenantusage_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenantusage"
)

// A tenant with 100 requests a minute has used three of them.
func Example() {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		panic(err)
	}
	set, err := rulefile.Load([]rulefile.File{{Name: "rules.yaml", Data: []byte("domain: api\ndescriptors: [{key: tenant, tenant: true}]")}}, rulefile.Options{})
	if err != nil {
		panic(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set})
	if err != nil {
		panic(err)
	}
	quota := &tenant.Quota{Limits: []tenant.Limit{{Limit: limit.Must(limit.Spec{Quota: 100, Period: time.Minute})}}}
	tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "free", Quotas: map[string]*tenant.Quota{tenant.Default: quota}}}, "free")
	if err != nil {
		panic(err)
	}
	limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account(nil))))
	acme := tenant.Subject{Key: "tenant", Value: "acme"}
	request := headgate.Request{Domain: "api", Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{acme}, Hits: 3}}}
	if err := limiter.Check(context.Background(), []headgate.Request{request}, make([]headgate.Response, 1)); err != nil {
		panic(err)
	}

	reader := tenantusage.New(tenantusage.Options{Limiter: limiter, Store: buckets})
	usage, err := reader.Usage(context.Background(), []tenant.Subject{acme})
	if err != nil {
		panic(err)
	}
	for _, l := range usage[0].Limits {
		fmt.Printf("%s: %d of %d used, by %s\n", l.Domain, l.Used, l.Quota, l.Source)
	}
	// Output: api: 3 of 100 used, by tier
}
